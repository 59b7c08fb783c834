package streams

import (
	"context"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// options are those for a server of a built-in profile, with the first second of the sample.
func options(t *testing.T, name, url string) Options {
	t.Helper()
	p, err := app.FindProfile(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := speaker.NewRecording(p, audio, time.Second, "")
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	target.Protocol, target.Lookalike = p.Subprotocol, p.Lookalike
	target.AddQuery(recording.Query())
	return Options{Targets: []*handshake.Target{target}, Profile: p, Recordings: []*speaker.Recording{recording}, Streams: 5}
}

// TestSimulated holds sessions with simulated servers of several protocols.
func TestSimulated(t *testing.T) {
	for name, protocol := range map[string]string{
		"vosk": sim.Vosk, "deepgram": sim.Deepgram, "openai-realtime": sim.OpenAIRealtime, "kaldi-gstreamer": sim.KaldiGStreamer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := sim.Start(sim.Options{Protocol: protocol})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			o := options(t, name, server.URL())
			if o.Alone, err = Alone(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			var r *load.Result
			if r, err = Run(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v\n%+v", r.Figures, *r.Speech)
		})
	}
}
