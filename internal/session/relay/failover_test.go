package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A server that takes its time until it is ready gets no burst for that: what is sent again begins at the pace with the first audio.
func TestPaceBeginsWithAudio(t *testing.T) {
	const start, ready = `{"start":1}`, `{"ready":1}`
	r := newRig(t, sessiontest.Failover("", 2, setup{Backend: withYAML(t, `profiles: {x: {ready: {json: {ready: 1}}, failover: {verdict: visible, why: x, pace: 1,
		audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}, configure: {messages: {json: {start: 1}}}, hide: {messages: {json: {ready: 1}}},
		answered: {messages: {json: {final: "*"}}, by: utterance}}}}`)}))
	r.AllReady(1, r.Backends...)
	client, server, n := r.Begin()
	client.Send(frame.Text, start)
	server.Expect(frame.Text, start)
	server.Send(frame.Text, ready)
	client.Expect(frame.Text, ready)
	second := recording(t, 1)
	for range 8 {
		client.Send(frame.Binary, string(second))
		server.Expect(frame.Binary, string(second))
	}
	server.Reset()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, start)
	r.on(func(s *Session) { s.failover.machine.Began -= loop.Instant(20 * time.Second) })
	next.Send(frame.Text, ready)
	next.Expect(frame.Binary, string(second))
	var held, all bool
	wstest.Eventually(t, "the replay waits, or is over", func() bool {
		r.on(func(s *Session) {
			f := s.failover
			held, all = f.timer.Active(), f.tracker.Delivered() == f.tracker.Received()
		})
		return held || all
	})
	if !held || all {
		t.Error("the next server gets all audio in one burst")
	}
	r.on(func(s *Session) { s.failover.paced -= loop.Instant(20 * time.Second) })
	for range 7 {
		next.Expect(frame.Binary, string(second))
	}
	_, _ = client.Close(), next.Close()
}

// A server dies in the middle of a frame to the client. The next one gets the configuration and what was not answered; the client gets
// neither half a frame nor a result twice, and the times continue.
func TestServerDiesInFrame(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0.05, 0.15), sessiontest.Final("one", 0.05, 0.15))
	sessiontest.Speak(client, server, 2, sessiontest.Partial("two"), sessiontest.Partial("two"))
	client.Send(frame.Binary, sessiontest.Chunk(3))
	server.Expect(frame.Binary, sessiontest.Chunk(3))
	half := server.Encode(true, frame.Text, []byte(sessiontest.Partial("two, but the server dies")))
	server.SendBytes(half[:len(half)-5])
	server.Reset()

	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(2))
	next.Send(frame.Text, sessiontest.Partial("two again")) // the client has got a reply to this
	next.Expect(frame.Binary, sessiontest.Chunk(3))
	next.Send(frame.Text, sessiontest.Final("two", 0.02, 0.18))
	client.Expect(frame.Text, sessiontest.Final("two", 0.22, 0.38))
	sessiontest.Speak(client, next, 4, sessiontest.Partial("three"), sessiontest.Partial("three"))
	client.Send(frame.Text, voskEnd)
	var d Detail
	r.on(func(s *Session) { d = s.detail() })
	if a := d.Recoverability; !a.Recoverable || len(a.Moves) != 1 || a.Moves[0].Cause != meter.Lost || a.Moves[0].Replayed != 200*time.Millisecond {
		t.Errorf("recoverability: %+v", a)
	}
	moved := r.Line("session moved")
	if moved["cause"].String() != "lost" || moved["replayed"].Duration() != 200*time.Millisecond {
		t.Errorf("the log says %v", moved)
	}
}
