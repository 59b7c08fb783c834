package verify

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A word that direct sessions have only with another recording is foreign; one that none of them has is not.
func TestForeign(t *testing.T) {
	p, err := profile.Named(sim.Vosk)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), Options{Profile: p})
	r.direct = []*outcome{{texts: []string{"one two"}}, {texts: []string{"two three"}}}
	for i, o := range r.direct {
		r.hear(o, i)
	}
	for text, want := range map[string]bool{"one two": false, "two": false, "one four": false, "two three": true} {
		if got := r.foreign(&outcome{texts: []string{text}}, 0); (got != "") != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A server that cannot be reached was not tried: nothing is said about the profile.
func TestUnreachable(t *testing.T) {
	nowhere, err := handshake.ParseTarget("ws://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	report, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk}, func(o *Options) { o.Target = nowhere })
	if err == nil || len(report.Claims) != 1 || report.Claims[0].Verdict != NotTried {
		t.Errorf("%v, %+v", err, report.Claims)
	}
}
