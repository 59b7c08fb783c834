package calibrate

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLateMachine: times that the lateness of the machine that measures may explain are not the server's. What it cannot explain is, and so are sessions that
// fail.
func TestLateMachine(t *testing.T) {
	limits := Limits{Lag: time.Second, First: time.Second, Final: time.Second}
	for name, c := range map[string]struct {
		late, lag time.Duration
		growth    float64
		length    time.Duration
		failed    int64
		want      Verdict
	}{
		"late, and lag grows":      {2 * time.Second, 900 * time.Millisecond, 0.5, 0, 0, Unclear},
		"late, and lag grows more": {2 * time.Second, 900 * time.Millisecond, 0.5, 10 * time.Second, 0, Fails},
		"late, and lag as much":    {2 * time.Second, 1900 * time.Millisecond, 0.18, 10 * time.Second, 0, Unclear},
		"late, and more lag":       {2 * time.Second, 3500 * time.Millisecond, 0, 10 * time.Second, 0, Fails},
		"late, and sessions fail":  {2 * time.Second, 900 * time.Millisecond, 0, 10 * time.Second, 1, Fails},
		"late, and all holds":      {2 * time.Second, 900 * time.Millisecond, 0, 10 * time.Second, 0, Holds},
		"in time":                  {20 * time.Millisecond, 900 * time.Millisecond, 0.5, 10 * time.Second, 0, Fails},
	} {
		r := &load.Result{Speech: &load.Speech{Growth: load.Growth{PerSecond: c.growth, Error: 0.0001, Sessions: 20}}}
		r.Complete, r.Failed, r.Errors = 20, c.failed, map[string]int64{}
		for range 100 {
			r.Speech.Late.Record(int64(c.late))
			r.Latency.Record(int64(c.lag))
			r.Speech.First.Record(int64(100 * time.Millisecond))
		}
		m := measured(r)
		m.Length = c.length
		if got, why := limits.Judge(5, m); got != c.want {
			t.Errorf("%s: %s: %s", name, got, why)
		}
	}
}

// TestNothingHeard: a server that hears nothing is not measured, and a step without a first result does not hold a limit for it.
func TestNothingHeard(t *testing.T) {
	simulated, err := sim.Start(sim.Options{Protocol: sim.Vosk})
	if err != nil {
		t.Fatal(err)
	}
	defer simulated.Close()
	p, err := profile.Named("vosk")
	if err != nil {
		t.Fatal(err)
	}
	silence, err := speaker.NewRecording(p, &wav.Audio{SampleRate: 16000, Channels: 1, BitsPerSample: 16, PCM: make([]byte, 16000)}, time.Second, "")
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget(simulated.URL())
	if err != nil {
		t.Fatal(err)
	}
	said := []*speaker.Recording{silence}
	s := &Server{Streams: streams.Options{Targets: []*handshake.Target{target}, Profile: p, Recordings: said}, Short: said, Limits: Limits{Lag: time.Second}, Log: t.Logf}
	if _, err := s.Alone(t.Context()); err == nil || !strings.Contains(err.Error(), "no session alone had a text") {
		t.Errorf("alone: %v", err)
	}
	r := &load.Result{Speech: &load.Speech{Same: 20, Growth: load.Growth{Error: 0.0001, Sessions: 20}}}
	r.Complete = 20
	r.Latency.Record(int64(100 * time.Millisecond))
	for first, want := range map[time.Duration]Verdict{0: Holds, time.Second: Fails} {
		limits := Limits{Lag: time.Second, First: first, SameText: 0.98}
		if got, why := limits.Judge(1, measured(r)); got != want {
			t.Errorf("first result within %v: %s: %s", first, got, why)
		}
	}
}

// TestMeasure measures a simulated server for three streams: two hold the limits, and of six, results are later by up to a second each second.
func TestMeasure(t *testing.T) {
	simulated, err := sim.Start(sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Streams: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer simulated.Close()
	p, err := profile.Named("vosk")
	if err != nil {
		t.Fatal(err)
	}
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := speaker.NewRecording(p, audio, time.Second/2, "")
	if err != nil {
		t.Fatal(err)
	}
	target, err := handshake.ParseTarget(simulated.URL())
	if err != nil {
		t.Fatal(err)
	}
	const length = 3 * time.Second
	s := &Server{
		Streams: streams.Options{Targets: []*handshake.Target{target}, Profile: p, Recordings: []*speaker.Recording{recording.AtLeast(length)}},
		Short:   []*speaker.Recording{recording}, Limits: Limits{Lag: time.Second}, Log: t.Logf,
	}
	if _, err := s.Alone(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A busy machine makes results late, too, so the two are compared: beyond 3 streams, 6 fall behind by a second each second.
	var slopes []float64
	for _, streams := range []int{2, 6} {
		var m Measured
		wstest.Eventually(t, "a measurement on a machine that is not late itself", func() bool {
			m, err = s.Measure(t.Context(), streams, length)
			return err != nil || m.Late <= mostLate
		})
		if err != nil || m.Sessions != streams || m.Failed != 0 {
			t.Errorf("%d streams: %+v, %v", streams, m, err)
		}
		slopes = append(slopes, m.Slope)
		if verdict, why := s.Limits.Judge(streams, m); streams > 3 && verdict != Fails {
			t.Errorf("%d streams: %s: %s", streams, verdict, why)
		}
	}
	if slopes[1]-slopes[0] < 0.3 {
		t.Errorf("the lag of 2 and 6 streams grows by %v seconds a second", slopes)
	}
}
