package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
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
	if errors.Is(err, speaker.ErrTakesText) {
		recording, err = speaker.NewText(p, "one two three", "")
	}
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

// simulated starts a simulated server.
func simulated(t *testing.T, o sim.Options) string {
	t.Helper()
	server, err := sim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.URL()
}

// What is reported of a server, and passed on, has no secret.
func TestNoSecretIsReported(t *testing.T) {
	r := newRun(t.Context(), options(t, "vosk", "ws://a.example/?token=s3cret"))
	if url := r.result.Targets[0].URL; !strings.HasPrefix(url, "ws://a.example/?token=") || strings.Contains(url, "s3cret") {
		t.Error(url)
	}
}

// TestSimulated holds sessions with simulated servers of several protocols: audio in binary and in JSON, and connections that are used once, that reply to each
// message, that tell times, and that tell nothing.
func TestSimulated(t *testing.T) {
	for name, by := range map[string]load.LagBy{
		"vosk": load.LagByReplies, "deepgram": load.LagByTimes, "openai-realtime": load.LagByTimes, "kaldi-gstreamer": load.LagByTimes,
		"funasr": load.LagByLast, "kyutai-tts": load.LagByLast,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, name, simulated(t, sim.Options{Protocol: name}))
			var err error
			if o.Alone, err = Alone(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			var phases []load.Phase
			o.Spread, o.For = 500*time.Millisecond, 500*time.Millisecond
			o.Progress = func(p load.Progress) {
				if p.Begins {
					phases = append(phases, p.Phase)
				}
			}
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			s := r.Speech
			if r.Err() != nil || r.Complete < 5 || r.Complete != r.Begun || s.Same != r.Complete || s.Alike != 1 || s.Lag != by {
				t.Errorf("%v, %+v, %+v", r.Err(), r.Counts, *s)
			}
			if s.Final.Count() != r.Complete || r.Latency.Count() < r.Complete || s.RealTime < 0.9 || s.RealTime > 3 || r.CloseCodes[1000]+r.CloseCodes[1005] != r.Complete {
				t.Errorf("%d last results, %d lags, %.2f times the audio, %v", s.Final.Count(), r.Latency.Count(), s.RealTime, r.CloseCodes)
			}
			if want := []load.Phase{load.Connecting, load.Steady, load.Draining, load.Done}; !slices.Equal(phases, want) {
				t.Errorf("phases %v", phases)
			}
			var sum load.Counts
			for _, p := range r.Series {
				sum.Sent, sum.Received, sum.Complete = sum.Sent+p.Sent, sum.Received+p.Received, sum.Complete+p.Completed
			}
			if sum.Sent != r.Sent || sum.Received != r.Received || sum.Complete != r.Complete {
				t.Errorf("the points of the series have %+v, all %+v", sum, r.Counts)
			}
		})
	}
}

// TestSteadyPhase: rates and the duration are those of the steady phase, without the time in which streams begin and that in which the last sessions end. Each
// phase begins a point of the series.
func TestSteadyPhase(t *testing.T) {
	o := options(t, "vosk", "ws://127.0.0.1:1")
	o.Spread, o.For = 10*time.Second, 20*time.Second
	r := newRun(t.Context(), o)
	pass := func(seconds, received, complete int) {
		r.began = r.began.Add(time.Duration(-seconds) * time.Second)
		for _, f := range []*load.Figures{&r.result.Figures, &r.result.Targets[0].Figures} {
			f.Received += int64(received)
			f.Complete += int64(complete)
		}
	}
	pass(10, 50, 1)
	r.enter(load.Steady)
	pass(20, 400, 10)
	r.enter(load.Draining)
	pass(30, 100, 5)
	got := r.finish()
	near := func(v, want float64) bool { return math.Abs(v-want) < 0.1*want }
	if !near(got.Duration.Seconds(), 20) || !near(got.MessagesPerSecond, 20) || !near(got.SessionsPerSecond, 0.5) || !near(got.Targets[0].MessagesPerSecond, 20) || got.Received != 550 {
		t.Errorf("%v, %v messages and %v sessions a second, %d received", got.Duration, got.MessagesPerSecond, got.SessionsPerSecond, got.Received)
	}
	for i, want := range []load.Point{{Phase: load.Connecting, Received: 50}, {Phase: load.Steady, Received: 400}, {Phase: load.Draining, Received: 100}} {
		if p := got.Series[i]; len(got.Series) != 3 || p.Phase != want.Phase || p.Received != want.Received {
			t.Errorf("point %d of %d: %+v, want %+v", i, len(got.Series), p, want)
		}
	}
	if short := newRun(t.Context(), o).finish(); short.Duration != 0 || short.MessagesPerSecond != 0 {
		t.Errorf("a run that was ended before the steady phase: %v, %v", short.Duration, short.MessagesPerSecond)
	}
}

// TestLag: a server that is late by some time for each message shows it as lag, one that gets slower as growth.
func TestLag(t *testing.T) {
	const late = 300 * time.Millisecond
	o := options(t, "vosk", simulated(t, sim.Options{Protocol: sim.Vosk, Latency: late}))
	var r *load.Result
	wstest.Eventually(t, "a run on a machine that is not late itself", func() bool {
		var err error
		if r, err = Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return r.Speech.Growth.PerSecond <= 0.5 || r.Latency.Quantile(1) < late+200*time.Millisecond
	})
	if p50 := r.Latency.Quantile(0.5); p50 < late || r.Speech.First.Quantile(0) < late || r.Speech.Final.Quantile(0) < late {
		t.Errorf("lag %v, first %v, last %v with a server that is late by %v", p50, r.Speech.First.Quantile(0), r.Speech.Final.Quantile(0), late)
	}
	if g := r.Speech.Growth; g.Sessions != 5 || g.PerSecond > 0.5 {
		t.Errorf("%+v", g)
	}
}

// TestTrouble holds sessions with servers that refuse, are full, die, or speak another protocol.
func TestTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		server  sim.Options
		kind    string
		full    bool
	}{
		"refuses": {"vosk", sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Refuse: 1}}, "connect: HTTP 503", true},
		"full":    {"vosk", sim.Options{Protocol: sim.Vosk, Sessions: 2}, "connect: HTTP 503", true},
		"says so": {"kyutai", sim.Options{Protocol: sim.Kyutai, Nasty: sim.NastyOptions{Full: 2}}, "the server is full", true},
		"dies":    {"vosk", sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Close: 1, CloseCode: 1011}}, "closed with 1011", false},
		"another": {"deepgram", sim.Options{Protocol: sim.SherpaONNX}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, c.profile, simulated(t, c.server))
			o.Last, o.Connect = 500*time.Millisecond, 2*time.Second
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Failures() == 0 || r.Failures()+r.Complete != r.Begun || c.kind != "" && r.Errors[c.kind] == 0 || (r.Speech.Full > 0) != c.full {
				t.Errorf("%+v, %v, %d full", r.Counts, r.Errors, r.Speech.Full)
			}
			if c.server.Sessions == 0 && c.server.Nasty.Full == 0 {
				if _, err := Alone(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.profile) {
					t.Errorf("alone: %v", err)
				}
			}
		})
	}
}

// TestInterrupted cuts sessions when the context ends, and measures what there is.
func TestInterrupted(t *testing.T) {
	o := options(t, "vosk", simulated(t, sim.Options{Protocol: sim.Vosk}))
	ctx, cancel := context.WithCancel(t.Context())
	o.Recordings[0] = o.Recordings[0].AtLeast(time.Minute) // so that nothing else ends a session
	o.Interval = 10 * time.Millisecond
	o.Progress = func(p load.Progress) {
		if p.Connected == o.Streams && p.Received > 0 {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	if err != nil || !r.Interrupted || r.Cut != 5 || r.Failed != 0 || r.Latency.Count() == 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestSame compares texts with those of a session alone.
func TestSame(t *testing.T) {
	o := options(t, "vosk", simulated(t, sim.Options{Protocol: sim.Vosk}))
	o.Alone = &Reference{Result: &load.Result{Speech: &load.Speech{Texts: []string{"another text"}}}}
	r, err := Run(t.Context(), o)
	if err != nil || r.Speech.Other != 5 || r.Speech.Same != 0 || r.Err() == nil {
		t.Errorf("%v, %+v", err, r.Speech)
	}
}

// TestNoText: where neither a session alone nor one of the crowd has a text, nothing was compared.
func TestNoText(t *testing.T) {
	o := options(t, "vosk", simulated(t, sim.Options{Protocol: sim.Vosk}))
	silence, err := speaker.NewRecording(o.Profile, &wav.Audio{SampleRate: 16000, Channels: 1, BitsPerSample: 16, PCM: make([]byte, 16000)}, time.Second, "")
	if err != nil {
		t.Fatal(err)
	}
	speech := o.Recordings[0]
	for _, c := range []struct {
		said []*speaker.Recording
		text bool
		same int64 // of five streams that take them in turn
	}{{[]*speaker.Recording{silence}, false, 0}, {[]*speaker.Recording{silence, speech}, true, 2}} {
		o.Recordings = c.said
		if o.Alone, err = Alone(t.Context(), o); err != nil || o.Alone.HasText() != c.text {
			t.Fatalf("%v, a text: %t", err, o.Alone.HasText())
		}
		r, err := Run(t.Context(), o)
		if err != nil || r.Complete != 5 {
			t.Fatalf("%v, %+v", err, r.Counts)
		}
		if _, compared := r.Speech.SameShare(); compared != c.text || r.Speech.Same != c.same || r.Speech.Other != 0 {
			t.Errorf("%d same, %d other, compared: %t", r.Speech.Same, r.Speech.Other, compared)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"", "", 1}, {"one", "", 0}, {"One, two.", "one two", 1}, {"one two three four", "one three four", 0.75}, {"a b c d", "a x c d", 0.75}, {"a b", "c d e f", 0},
	} {
		if got, back := Alike(c.a, c.b), Alike(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q, %q: %v, %v, want %v", c.a, c.b, got, back, c.want)
		}
	}
}

// TestServerRepeatsTheKey: a server that says of each session that it has failed, with an id of its own and the client's key, makes one kind of error, and the
// key is not shown.
func TestServerRepeatsTheKey(t *testing.T) {
	upgrader, ids := websocket.Upgrader{}, atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		filler := strings.Repeat("x", 140) // so that the key is where the message is cut
		_ = c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"error","event_id":"%d","message":"%s %s"}`, ids.Add(1), filler, r.Header.Get("Authorization")))
		_, _, _ = c.ReadMessage()
	}))
	defer server.Close()
	o := options(t, "realtimestt", "ws"+strings.TrimPrefix(server.URL, "http"))
	o.Targets[0].Resolve = func() (http.Header, error) { return http.Header{"Authorization": {"Bearer s3cret-and-long"}}, nil }
	o.Streams = 20
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed != 20 || len(r.Errors) != 1 || r.Errors[SaidFailed] != 20 || r.Said == nil || strings.Contains(r.Said.Error(), "s3c") || !strings.Contains(r.Said.Error(), "(hidden)") {
		t.Errorf("%d failed: %v, %v", r.Failed, r.Errors, r.Said)
	}
	if _, err := Alone(t.Context(), o); err == nil || strings.Contains(err.Error(), "s3c") {
		t.Errorf("alone: %v", err)
	}
}
