package relay

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// pinging has pings sent often, and gives a server that answers them time enough even when the machine is busy.
func pinging(timeout time.Duration) func(*backend.Options) {
	return func(o *backend.Options) { o.PingInterval, o.PingTimeout = 20*time.Millisecond, timeout }
}

// pongTimeout is for tests in which pongs are missed.
const pongTimeout = time.Second

// lively is a server that echoes and answers pings, until it is told not to.
type lively struct {
	deaf  atomic.Bool // pings are not answered
	pings chan string // the payloads of those that came
	// instead is called with each data frame and ping, and returns true when that is all there is to do.
	instead func(p *wstest.Peer, op frame.Opcode, payload string) bool
}

func newLively() *lively { return &lively{pings: make(chan string, 1000)} }

func (l *lively) serve(p *wstest.Peer) {
	for {
		h, payload, err := p.Next()
		if err != nil {
			return
		}
		deaf := l.deaf.Load()
		if h.Opcode == frame.Ping {
			l.pings <- string(payload)
		}
		switch {
		case h.Opcode == frame.Pong, l.instead != nil && l.instead(p, h.Opcode, string(payload)):
			continue
		case h.Opcode == frame.Ping && deaf:
			continue
		case h.Opcode == frame.Ping:
			h.Opcode = frame.Pong
		}
		if _, err := p.Conn.Write(p.Encode(h.Fin, h.Opcode, payload)); err != nil || h.Opcode == frame.Close {
			return
		}
	}
}

// awaitPings waits for pings that come from now on.
func (l *lively) awaitPings(t *testing.T, n int) {
	t.Helper()
	for len(l.pings) > 0 {
		<-l.pings
	}
	for range n {
		select {
		case payload := <-l.pings:
			if len(payload) != 8 {
				t.Errorf("ping with the payload %q", payload)
			}
		case <-time.After(wstest.Timeout):
			t.Fatal("no ping came")
		}
	}
}

// A backend that answers neither pings nor the last message is lost before the profile's time for the last answer has passed.
func TestPingsWhileTheLastAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	l := newLively()
	l.instead = func(_ *wstest.Peer, op frame.Opcode, payload string) bool {
		if op == frame.Text && payload != voskConfig {
			l.deaf.Store(true)
		}
		return op != frame.Ping
	}
	r := newRig(t, setup{Profile: "vosk", Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	client.Send(frame.Text, voskConfig)
	client.Send(frame.Binary, "audio")
	client.Send(frame.Text, voskEnd)
	client.ExpectClose(frame.InternalError, "backend connection lost: no answer to a ping within 1s")
}

// A session in which nothing happens lasts for as long as its backend answers pings. The client sees nothing of them.
func TestPingsKeepIdleSession(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			l := newLively()
			r := newRig(t, setup{Profile: profile, Script: &wstest.Server{Serve: l.serve}, Backend: pinging(wstest.Timeout)})
			client := r.Join()
			l.awaitPings(t, 6) // the next is not sent before the last was answered
			client.Ask("still here")
			client.Send(frame.Ping, "my own")
			client.Expect(frame.Pong, "my own")
			l.awaitPings(t, 2)
			if h := r.Backend.Health(); h.RoundTripSeconds <= 0 || h.Broken != 0 {
				t.Errorf("health: %+v", h)
			}
			client.CloseNormally()
			r.Ready(1)
			l.awaitPings(t, 2) // between sessions as well
			r.Join().Ask("the next")
		})
	}
}

// Pongs that were not asked for are not passed on, and prove nothing.
func TestPongsAreNotRelayed(t *testing.T) {
	t.Parallel()
	l := newLively()
	l.instead = func(p *wstest.Peer, op frame.Opcode, payload string) bool {
		if op != frame.Ping || !l.deaf.Load() {
			return false
		}
		for _, text := range []string{"", payload[1:], payload + "x", "12345678"} {
			_, _ = p.Conn.Write(p.Encode(true, frame.Pong, []byte(text)))
		}
		return true
	}
	r := newRig(t, setup{Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	client.Ask("still here")
	l.deaf.Store(true)
	client.ExpectClose(frame.InternalError, "backend connection lost: no answer to a ping within 1s")
}

// A backend that no longer answers, not even its connection's end, ends the session.
func TestSilentBackend(t *testing.T) {
	t.Parallel()
	const reason = "backend connection lost: no answer to a ping within 1s"
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			l := newLively()
			r := newRig(t, setup{Profile: profile, Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
			client := r.Join()
			client.Ask("hello")
			l.deaf.Store(true)
			client.ExpectClose(frame.InternalError, reason)
			client.SendClose(frame.InternalError, "")
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(fate{"backend", frame.InternalError, reason, "discarded"})
			if s, h := r.Backend.Stats().Totals, r.Backend.Health(); s.Discarded != 1 || s.Reasons[pool.Silent] == 0 || h.Broken != 1 {
				t.Errorf("totals: %+v, health: %+v", s, h)
			}
		})
	}
}

// A backend that computes in the thread which reads may answer pings late, but what else it says shows that it lives.
func TestTalkingBackendIsNotJudged(t *testing.T) {
	t.Parallel()
	l := newLively()
	l.instead = func(p *wstest.Peer, op frame.Opcode, _ string) bool {
		if op != frame.Ping || !l.deaf.Load() {
			return false
		}
		_, _ = p.Conn.Write(p.Encode(true, frame.Text, []byte("busy")))
		return true
	}
	r := newRig(t, setup{Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	client.Ask("hello")
	l.deaf.Store(true)
	for range 3 { // a ping follows each that was judged
		client.Expect(frame.Text, "busy")
	}
	l.deaf.Store(false)
	l.awaitPings(t, 3)
	if h := r.Backend.Health(); h.Broken != 0 {
		t.Errorf("health: %+v", h)
	}
}

// While the client is slow, what its backend sends is not read, a pong perhaps.
func TestBackendOfSlowClientIsNotJudged(t *testing.T) {
	t.Parallel()
	l := newLively()
	large := wstest.ServerFrame(true, frame.Binary, wstest.Noise(1, 16<<20))
	sent := make(chan error, 1)
	l.instead = func(p *wstest.Peer, _ frame.Opcode, text string) bool {
		if text != "flood" {
			return false
		}
		l.deaf.Store(true)
		go func() {
			_, err := p.Conn.Write(large)
			sent <- err
		}()
		return true
	}
	r := newRig(t, setup{Script: &wstest.Server{Serve: l.serve}, Backend: pinging(pongTimeout)})
	client := r.Join()
	client.Ask("hello")
	client.Send(frame.Text, "flood")
	wstest.Eventually(t, "the backend is no longer read", func() (paused bool) {
		r.on(func(s *Session) { paused = s.leg.conn.Stream().Paused() })
		return paused
	})
	l.awaitPings(t, 3) // a ping follows each that was judged
	l.deaf.Store(false)
	client.ExpectBytes(large)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
