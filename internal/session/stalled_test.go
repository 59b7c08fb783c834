package session

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/session/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// stallingAfter watches servers, without failover.
func stallingAfter(timeout time.Duration) func(*route.Service) {
	return func(s *route.Service) { s.Failover, s.StallTimeout = false, timeout }
}

// A server answers pings and nothing else. Its only session ends, and it gets no other until it has answered again.
func TestServerStalls(t *testing.T) {
	r := newRig(t, setup{profile: "vosk", script: new(wstest.Server), service: stallingAfter(100 * time.Millisecond)})
	r.ready(1)
	client, server := r.session()
	client.Send(frame.Binary, chunk(0))
	server.Expect(frame.Binary, chunk(0))
	server.Send(frame.Text, partial("one"))
	client.Expect(frame.Text, partial("one"))
	client.Send(frame.Binary, chunk(1))
	server.Expect(frame.Binary, chunk(1))
	for range 20 {
		server.Send(frame.Ping, "alive")
		server.Expect(frame.Pong, "alive")
	}
	h, payload, err := client.Next()
	code, reason, _ := frame.ParseClose(payload)
	if err != nil || h.Opcode != frame.Close || code != frame.InternalError || !regexp.MustCompile(`^backend stalled: no reply for [0-9.m]+s$`).Match(reason) {
		t.Fatalf("received %v %v %q, %v", h.Opcode, code, reason, err)
	}
	if line := r.line("backend taken out of service, sessions stall on it"); !strings.HasPrefix(line["reason"].String(), "backend stalled: no reply for") {
		t.Errorf("the log says %v", line)
	}
	b := r.backends[0]
	wstest.Eventually(t, "the pool knows it", func() bool { return !b.Stats().Usable })
	if h := b.Health(); !h.Stalled || h.Broken != 1 {
		t.Errorf("health %+v", h)
	}
	if n := r.counted().Stalls; n != 1 {
		t.Errorf("%d stalls were counted", n)
	}
}

// A client that says nothing, or that is answered, has no quarrel with its server.
func TestServerHasNothingToSay(t *testing.T) {
	r := newRig(t, setup{profile: "vosk", script: new(wstest.Server), service: stallingAfter(100 * time.Millisecond)})
	client, server := r.session()
	var w *failover.StallWatch
	for round := range 3 {
		r.looksAtServer(30)
		client.Send(frame.Binary, chunk(round))
		server.Expect(frame.Binary, chunk(round))
		server.Send(frame.Text, partial("one"))
		client.Expect(frame.Text, partial("one"))
	}
	r.looksAtServer(1)
	r.on(func(s *Session) { w = s.failover.watch })
	if w.Quiet() != 0 || r.counted().Stalls != 0 {
		t.Errorf("it owes a sign for %v, %d stalls counted", w.Quiet(), r.counted().Stalls)
	}
}

// The lag of a backend is that of its sessions.
func TestLags(t *testing.T) {
	r := newRig(t, setup{profile: "vosk", cap: 3, script: new(wstest.Server), service: stallingAfter(time.Hour)})
	r.ready(3)
	if n := len(r.server.Lags()); n != 0 {
		t.Errorf("there is no session, and %d backends have lags", n)
	}
	for range 3 {
		_, _ = r.session()
	}
	n := time.Duration(0)
	r.each(func(s *Session) {
		n++
		v, now := failover.StallView{Unanswered: 1}, loop.Now()
		s.failover.watch.Look(&v, now)
		s.failover.watch.Look(&v, now.After(n*time.Second))
	})
	for name, lag := range r.server.Lags() {
		if lag.Longest != 3*time.Second || lag.Median != 2*time.Second || name.Backend != r.backends[0].Name() {
			t.Errorf("%+v has %+v; want 3 s, and 2 s for half of the sessions", name, lag)
		}
	}
	if n != 3 {
		t.Errorf("%d sessions", n)
	}
}

// looksAtServer has the session look at its server so many times, at once.
func (r *rig) looksAtServer(times int) {
	r.t.Helper()
	for range times {
		r.on(func(s *Session) { s.failover.lookForStall() })
	}
}

// A session moves on from a server that stalls, and the next one gets what is not answered.
func TestSessionLeavesStalledServer(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{service: func(s *route.Service) { s.StallTimeout = 200 * time.Millisecond }})
	client, server, n := r.begin()
	speak(client, server, 0, final("one", 0, 0.1), final("one", 0, 0.1))
	client.Send(frame.Binary, chunk(1))
	server.Expect(frame.Binary, chunk(1))
	next := r.other(n)
	next.Expect(frame.Binary, chunk(1))
	next.Send(frame.Text, final("two", 0.01, 0.1))
	client.Expect(frame.Text, final("two", 0.11, 0.2))
	if moved := r.line("session moved"); moved["cause"].String() != "stalled" {
		t.Errorf("the log says %v", moved)
	}
	if !r.backends[n].Health().Stalled || r.backends[1-n].Health().Stalled {
		t.Errorf("stalled: %v, %v", r.backends[n].Health().Stalled, r.backends[1-n].Health().Stalled)
	}
	client.Send(frame.Text, voskEnd)
}

// A session that stalls wherever it goes ends, and does not take one server after the other out of service.
func TestSessionStallsEverywhere(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{service: func(s *route.Service) {
		s.StallTimeout, s.QueueTimeout = 100*time.Millisecond, 200*time.Millisecond
	}})
	client, server, n := r.begin()
	client.Send(frame.Binary, chunk(0))
	server.Expect(frame.Binary, chunk(0))
	next := r.other(n)
	next.Expect(frame.Binary, chunk(0))
	h, payload, err := client.Next()
	code, reason, _ := frame.ParseClose(payload)
	if err != nil || h.Opcode != frame.Close || code != frame.InternalError || !strings.HasPrefix(string(reason), "backend stalled: no reply for") {
		t.Fatalf("received %v %v %q, %v", h.Opcode, code, reason, err)
	}
	if r.backends[1-n].Health().Stalled || !r.backends[1-n].Stats().Usable {
		t.Error("the second server is out of service because of a session that stalls anywhere")
	}
}

const audioSecond = 32000 // bytes at 16 kHz

// recording returns speech.
func recording(t *testing.T, seconds int) []byte {
	w, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(w.PCM, 1+seconds*audioSecond/len(w.PCM))[:seconds*audioSecond]
}

// A server that sends heartbeats only has stalled: audio with speech goes in, and no result comes.
func TestHeartbeatsAreNoResults(t *testing.T) {
	t.Parallel()
	said := recording(t, 8)
	r := newRig(t, setup{profile: "funasr", script: new(wstest.Server), service: stallingAfter(time.Second), options: func(o *Options) {
		o.Replay = replay.NewArena(1 << 20)
	}})
	client, server := r.session()
	client.Send(frame.Text, `{"mode": "2pass", "wav_name": "a", "is_speaking": true, "audio_fs": 16000, "wav_format": "pcm"}`)
	server.Expect(frame.Text, `{"mode": "2pass", "wav_name": "a", "is_speaking": true, "audio_fs": 16000, "wav_format": "pcm"}`)
	go func() {
		for {
			if _, _, err := server.Next(); err != nil {
				return
			}
		}
	}()
	ended := make(chan string, 1)
	go func() {
		_, payload, _ := client.Next()
		ended <- string(payload)
	}()
	pace := time.NewTicker(10 * time.Millisecond) // ten times faster than it was spoken
	defer pace.Stop()
	for {
		for at := 0; at < len(said); at += audioSecond / 10 {
			select {
			case payload := <-ended:
				if !strings.Contains(payload, "backend stalled: no result for") {
					t.Errorf("ended with %q", payload)
				}
				return
			case <-pace.C:
				client.Send(frame.Binary, string(said[at:at+audioSecond/10]))
				server.Send(frame.Ping, "alive")
			}
		}
	}
}

// Two sessions that stall do not take a server out of service that gives others results meanwhile.
func TestSessionsStallWhileOthersHear(t *testing.T) {
	answersSome := func(p *wstest.Peer) {
		for {
			switch _, payload, err := p.Next(); {
			case err != nil:
				return
			case string(payload) == chunk(0):
				p.Send(frame.Text, partial("one"))
			}
		}
	}
	r := newRig(t, setup{profile: "vosk", cap: 3, script: &wstest.Server{Serve: answersSome}, service: stallingAfter(500 * time.Millisecond)})
	r.ready(3)
	well, stop, stopped := r.join(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				well.Send(frame.Binary, chunk(0))
				well.Expect(frame.Text, partial("one"))
			}
		}
	}()
	stalling := []*wstest.Peer{r.join(), r.join()}
	for _, client := range stalling {
		client.Send(frame.Binary, chunk(1))
	}
	for _, client := range stalling {
		h, payload, err := client.Next()
		if code, _, _ := frame.ParseClose(payload); err != nil || h.Opcode != frame.Close || code != frame.InternalError {
			t.Errorf("received %v %v, %v", h.Opcode, code, err)
		}
	}
	close(stop)
	<-stopped
	if n := r.counted().Stalls; n != 2 {
		t.Errorf("%d stalls were counted", n)
	}
	if b := r.backends[0]; b.Health().Stalled || !b.Stats().Usable {
		t.Errorf("it is out of service: %+v", b.Health())
	}
}
