package detect

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// detect looks at a simulated server of a protocol, which may refuse all clients, with some profiles.
func detect(t *testing.T, protocol string, refuses bool, profiles ...string) (*Result, error) {
	t.Helper()
	o := sim.Options{Protocol: protocol}
	if refuses {
		o.Admit = func(*http.Request) int { return http.StatusUnauthorized }
	}
	server, err := sim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Wait: 30 * time.Second,
		Target: func(p *profile.Profile) (*handshake.Target, error) {
			target, err := handshake.ParseTarget(server.URL())
			if p != nil && err == nil {
				target.Protocol, target.Lookalike = p.Subprotocol, p.Lookalike
			}
			return target, err
		},
		Recording: func(p *profile.Profile) (*speaker.Recording, error) {
			return speaker.NewRecording(p, audio, time.Second, "")
		},
		Tried: func(try Try) { t.Logf("%s: %t %s", try.Profile.Name, try.Fits, try.Found) },
	}
	for _, name := range profiles {
		p, err := profile.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		options.Profiles = append(options.Profiles, p)
	}
	return Run(t.Context(), options)
}

// The profile of a server is found among others, with what speaks for it. Two that fit equally well are doubtful.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		protocol string
		profiles []string
		fits     string // names
		doubtful bool
		greets   bool
		says     string // of the first one
	}{
		{sim.Vosk, []string{"echo", "vosk", "one-shot"}, "vosk", false, false, `a session of 1s came to its end in order; its text is "`},
		{sim.Echo, []string{"echo", "one-shot"}, "echo", false, false, "a session of 1s came to its end in order"},
		{sim.RealtimeSTT, []string{"assemblyai", "echo", "realtimestt"}, "realtimestt", false, true, "the server said that it was ready; its last message was the one that the profile describes"},
		{sim.FunASR, []string{"funasr", "one-shot"}, "funasr", false, false, "it took the subprotocol binary"},
		{sim.SGLangRealtime, []string{"openai-realtime", "sglang-realtime"}, "openai-realtime, sglang-realtime", true, true, "its text is"},
		{sim.Vosk, []string{"one-shot", "vllm-realtime", "assemblyai"}, "", false, false, ""},
	} {
		t.Run(c.protocol, func(t *testing.T) {
			t.Parallel()
			r, err := detect(t, c.protocol, false, c.profiles...)
			if err != nil {
				t.Fatal(err)
			}
			fits, doubtful := r.Fitting()
			var names []string
			for _, f := range fits {
				names = append(names, f.Profile.Name)
			}
			if strings.Join(names, ", ") != c.fits || doubtful != c.doubtful || len(r.Tries) != len(c.profiles) || (r.Greeting != "") != c.greets {
				t.Errorf("%q, doubtful %t, %d tries, greeting %q; want %+v", names, doubtful, len(r.Tries), r.Greeting, c)
			}
			if len(fits) > 0 && !strings.Contains(fits[0].Found, c.says) {
				t.Errorf("%s; want %s", fits[0].Found, c.says)
			}
		})
	}
}

// A server that cannot be tried is an error that names what is missing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	if _, err := detect(t, sim.Vosk, true, "vosk"); err == nil || !strings.Contains(err.Error(), "--header NAME=VALUE") {
		t.Errorf("without its key: %v", err)
	}
}
