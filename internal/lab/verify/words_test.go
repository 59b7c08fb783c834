package verify

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// spoken is an outcome with these words.
func spoken(words string) *outcome {
	return &outcome{finals: []leaves{{"text": words}}, texts: []string{words}}
}

// Where words differ each time, they are not compared, but those of another recording are still a difference.
func TestForeignWordsDiffer(t *testing.T) {
	p, err := profile.Named(sim.Vosk)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), Options{Profile: p}) // it may open no connection, to see more
	r.direct = []*outcome{spoken("one two"), spoken("alpha")}
	r.volatile["text"] = true
	r.hear(r.direct[0], 0)
	r.hear(r.direct[1], 1)
	r.hear(spoken("one too"), 0)
	r.hear(spoken("alpha beta"), 1)
	for words, want := range map[string]struct{ same, compared bool }{
		"one two": {true, true}, "one too": {true, true}, "one tool": {true, false}, "one alpha": {false, false}, "one beta": {false, false},
	} {
		if err := r.differs(spoken(words), 0); (err == nil) != want.same || r.compared(spoken(words), 0) != want.compared {
			t.Errorf("%q: %v, compared %t", words, err, r.compared(spoken(words), 0))
		}
	}
	if !r.apart(0) || !r.apart(1) {
		t.Error("the recordings have words of their own")
	}
	r.direct[1] = spoken("two one")
	if r.apart(0) {
		t.Error("the recordings have the same words")
	}
	r.verdict("reset", "", "", errReworded)
	if r.report.Claims[0].Verdict != NotTried {
		t.Errorf("%+v", r.report.Claims[0])
	}
}

// Nothing fails on a server whose words differ from session to session, whether the first direct sessions show that or further ones, and nothing holds that
// words alone could show. With recordings that have words of their own, reset holds.
func TestWordsDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every int // connections, of which one has other words
		apart bool
	}{{1, false}, {2, true}, {5, true}} {
		server, err := sim.Start(sim.Options{Protocol: sim.Vosk})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		words := &laggard{server: server.Addr().String(), alter: func(n int, sent []byte) []byte {
			if n%c.every == c.every-1 {
				sent = bytes.ReplaceAll(sent, []byte("heard-"), fmt.Appendf(nil, "h%04d-", n))
			}
			return sent
		}}
		target, err := handshake.ParseTarget("ws://" + words.start(t))
		if err != nil {
			t.Fatal(err)
		}
		r, err := try(t, sim.Vosk, sim.Options{Protocol: sim.Vosk}, func(o *Options) {
			if o.Target = target; !c.apart {
				o.Recordings = o.Recordings[:1]
			}
		})
		verdicts := make(map[string]Verdict)
		for _, c := range r.Claims {
			verdicts[c.Name] = c.Verdict
		}
		want := map[bool]Verdict{true: Holds, false: NotTried}[c.apart]
		if err != nil || verdicts["session"] != Holds || verdicts["reset"] != want || verdicts["move"] == Fails || verdicts["pace"] == Fails {
			t.Errorf("%+v: %v", c, err)
			show(t, r)
		}
	}
}
