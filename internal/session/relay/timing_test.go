package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// later returns the only session's timing as it is that much later, if nothing is sent meanwhile.
func (r *rig) later(d time.Duration) (t Timing) {
	r.T.Helper()
	r.sent()
	r.on(func(s *Session) { t = s.timing(loop.Now().After(d)) })
	return t
}

// about reports whether a time is what was measured, or a little more.
func about(got, want time.Duration) bool { return got >= want && got < want+5*time.Second }

// A server that never answers owes its first reply from the client's first message on, and its lag grows from there, at every moment.
func TestTimingOfSilentServer(t *testing.T) {
	r := newRig(t, setup{Profile: "echo"})
	client, server := r.Session()
	if got := r.later(time.Minute); got.Lag != 0 || got.Unreplied != 0 || got.Owed != 0 || !about(got.ClientSilent, time.Minute) {
		t.Errorf("before the client has sent anything: %+v", got)
	}
	client.Send(frame.Binary, "audio")
	server.Expect(frame.Binary, "audio")
	if got := r.later(0); got.Lag >= 5*time.Second || got.Lag <= 0 || !got.Sending || got.Owed != got.Lag {
		t.Errorf("just now: %+v", got)
	}
	if got := r.later(16 * time.Second); !about(got.Lag, 16*time.Second) || !about(got.Unreplied, 16*time.Second) || got.Owed != got.Lag || got.Sending {
		t.Errorf("16 s after the client's only message: %+v", got)
	}
	server.Send(frame.Binary, "text")
	client.Expect(frame.Binary, "text")
	wstest.Eventually(t, "the answer is counted", func() bool { return r.later(0).Lag == 0 })
	if got := r.later(time.Minute); got.Lag != 0 || got.Unreplied != 0 || !about(got.ServerSilent, time.Minute) {
		t.Errorf("a minute after the answer: %+v", got)
	}
}

// Where the session's answers are followed, seconds of audio that are not answered are the lag, also if they came in a moment.
func TestLagOfUnansweredAudio(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Service: func(s *route.Service) { s.StallTimeout = time.Minute }})
	client, server := r.Session()
	const second = 2 * 8000
	client.Send(frame.Binary, string(make([]byte, second)))
	server.Expect(frame.Binary, string(make([]byte, second)))
	r.on(func(s *Session) { s.account.spoke -= loop.Instant(time.Minute) }) // it speaks since then, at the speed of speech
	for range 5 {
		client.Send(frame.Binary, string(make([]byte, second)))
		server.Expect(frame.Binary, string(make([]byte, second)))
	}
	if got := r.later(0); !about(got.Lag, 5*time.Second) {
		t.Errorf("5 s of audio came after the first that is not answered, and the lag is %v", got.Lag)
	}
	if got := r.later(10 * time.Second); !about(got.Lag, 15*time.Second) {
		t.Errorf("10 s later, it is %v", got.Lag)
	}
	for range 6 {
		server.Send(frame.Text, `{"partial": ""}`)
		client.Expect(frame.Text, `{"partial": ""}`)
	}
	wstest.Eventually(t, "nothing is unanswered", func() bool { return r.later(time.Minute).Lag == 0 })
}

// Where results come for speech only, audio without an answer is silence, until partial results are about it.
func TestLagOfSpeech(t *testing.T) {
	r := newRig(t, setup{Profile: "speechmatics", Service: func(s *route.Service) { s.StallTimeout = time.Minute }})
	client, server := r.Session()
	start := `{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 8000}}`
	client.Send(frame.Text, start)
	server.Expect(frame.Text, start)
	server.Send(frame.Text, `{"message": "RecognitionStarted"}`)
	client.Expect(frame.Text, `{"message": "RecognitionStarted"}`)
	second := string(make([]byte, 16000))
	for range 5 {
		client.Send(frame.Binary, second)
		server.Expect(frame.Binary, second)
	}
	r.on(func(s *Session) { s.account.spoke -= loop.Instant(time.Minute) })
	if got := r.later(0); got.Lag != 0 {
		t.Errorf("in silence, the lag is %v", got.Lag)
	}
	answer := func(message string) {
		server.Send(frame.Text, message)
		client.Expect(frame.Text, message)
	}
	answer(`{"message": "AddPartialTranscript", "metadata": {"start_time": 0, "end_time": 1}}`)
	r.on(func(s *Session) { s.failover.partial -= loop.Instant(3 * time.Second) })
	if got := r.later(0); !about(got.Lag, 3*time.Second) {
		t.Errorf("three seconds after the first partial result, the lag is %v", got.Lag)
	}
	answer(`{"message": "AddTranscript", "metadata": {"start_time": 0, "end_time": 4}}`)
	wstest.Eventually(t, "the final result is counted", func() bool { return r.later(0).Lag == 0 })
}

// Audio that comes faster than it was spoken is not late before it would have come.
func TestLagOfFastAudio(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Service: func(s *route.Service) { s.LagLimit = time.Second }})
	client, server := r.Session()
	const second = 2 * 8000
	for range 10 {
		client.Send(frame.Binary, string(make([]byte, second)))
		server.Expect(frame.Binary, string(make([]byte, second)))
	}
	for range 6 {
		server.Send(frame.Text, `{"partial": ""}`)
		client.Expect(frame.Text, `{"partial": ""}`)
	}
	late := func(after time.Duration) time.Duration {
		got := r.later(after)
		if got.Late != got.Lag || !got.Timed {
			t.Errorf("where each message gets a reply, results are as late as the lag is: %+v", got)
		}
		return got.Late
	}
	wstest.Eventually(t, "six seconds are answered", func() bool { return late(5*time.Second) < 6*time.Second })
	r.on(func(s *Session) {
		s.activity.server, s.activity.asked = loop.Now().After(9*time.Second), loop.Now().After(9*time.Second)
	}) // it works
	if got := late(9 * time.Second); !about(got, 2*time.Second) {
		t.Errorf("9 s after the beginning, the answer to the seventh second is due since two, and it is %v late", got)
	}
}

// Where final results tell how far they go, they show how late results come, with a limit on that only, and for a while.
func TestLateResults(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		r := newRig(t, setup{Profile: "speechmatics", Service: func(s *route.Service) { s.LagLimit = limit }})
		client, server := r.Session()
		start := `{"message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 8000}}`
		client.Send(frame.Text, start)
		server.Expect(frame.Text, start)
		server.Send(frame.Text, `{"message": "RecognitionStarted"}`)
		client.Expect(frame.Text, `{"message": "RecognitionStarted"}`)
		second := string(make([]byte, 16000))
		for range 10 {
			client.Send(frame.Binary, second)
			server.Expect(frame.Binary, second)
		}
		r.on(func(s *Session) {
			s.account.spoke -= loop.Instant(time.Minute)
			if (s.failover != nil) != (limit > 0) {
				t.Errorf("with lag-limit %v, answers are followed: %t", limit, s.failover != nil)
			}
		})
		if got := r.later(0); got.Late != 0 || got.Timed != (limit > 0) {
			t.Errorf("before any result: %+v", got)
		}
		server.Send(frame.Text, `{"message": "AddTranscript", "metadata": {"start_time": 0, "end_time": 3}}`)
		client.Expect(frame.Text, `{"message": "AddTranscript", "metadata": {"start_time": 0, "end_time": 3}}`)
		if limit == 0 {
			if got := r.later(0); got.Late != 0 || got.Timed {
				t.Errorf("without a limit: %+v", got)
			}
			continue
		}
		wstest.Eventually(t, "the result is seen", func() bool { return r.later(0).Late > 0 })
		if got := r.later(0); !about(got.Late, 7*time.Second) || !got.Timed {
			t.Errorf("the result up to the third of ten seconds: %+v", got)
		}
		if got := r.later(lateFor); got.Late != 0 || !got.Timed {
			t.Errorf("%v later: %+v", lateFor, got)
		}
	}
}
