package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	liveOptions = `{"uid" : "u", "language" : "en", "audio_format" : "int16"}`
	liveReady   = `{"uid" : "u", "message" : "SERVER_READY", "backend" : "x"}`
)

// inReplay returns a session of WhisperLive's whose next server has got its client's options, and is not ready for the audio.
func (r *rig) inReplay() (client, next *wstest.Peer) {
	r.T.Helper()
	client, server, n := r.Begin()
	client.Send(frame.Text, liveOptions)
	server.Expect(frame.Text, liveOptions)
	server.Send(frame.Text, liveReady)
	client.Expect(frame.Text, liveReady)
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	server.Reset()
	next = r.Other(n)
	next.ExpectOwn(frame.Text, liveOptions)
	return client, next
}

// A client that closes during the replay does not wait for longer than CloseTimeout for a server that takes nothing.
func TestClientClosesInReplay(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{Service: func(s *route.Service) { s.CloseTimeout = 50 * time.Millisecond }})
	client, _ := r.inReplay()
	client.SendClose(frame.NormalClosure, "enough")
	client.ExpectClose(frame.NormalClosure, "enough")
	client.ExpectEnd()
	_ = client.Close()
	if a := r.Record(); a["by"].String() != "client" || a["moves"].Int64() != 1 {
		t.Errorf("the record says %v", a)
	}
}

// A server that becomes ready after the client has closed gets all that the client sent, and then its close frame.
func TestServerIsReadyAfterClientCloses(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{})
	client, next := r.inReplay()
	client.SendClose(frame.NormalClosure, "enough")
	wstest.Eventually(t, "the close frame waits", func() (waits bool) {
		r.on(func(s *Session) { waits = s.failover.closing != nil })
		return waits
	})
	next.Send(frame.Text, liveReady)
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	client.ExpectClose(frame.NormalClosure, "enough")
	client.ExpectEnd()
	_ = client.Close()
}

// serving returns the number of the server that serves the only session.
func (r *rig) serving() (number int) {
	r.T.Helper()
	r.is(relaying)
	r.on(func(s *Session) {
		for i, b := range r.Backends {
			if b == s.record.Backend {
				number = i
			}
		}
	})
	return number
}

// poisoned has a client say what makes its server close with 1011, and returns the server that got it next, and the first.
func (r *rig) poisoned() (client, next *wstest.Peer, second, first int) {
	r.T.Helper()
	client, server, first := r.Begin()
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	server.SendClose(frame.InternalError, "poison")
	wstest.Eventually(r.T, "it moves", func() (moved bool) {
		r.on(func(s *Session) { moved = s.failover.machine.Legs() == 2 })
		return moved
	})
	second = r.serving()
	next = r.Scripts[second].Take()
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	return client, next, second, first
}

// broken returns how many sessions each server has broken.
func (r *rig) broken() (broken [3]uint64) {
	for i, b := range r.Backends {
		broken[i] = b.Health().Broken
	}
	return broken
}

// A message that makes two servers close in the same way is not given to a third, and says nothing about the two.
func TestTwoServersEndAlike(t *testing.T) {
	r := newFailoverRig(t, "vosk", 3, setup{})
	client, next, _, _ := r.poisoned()
	next.SendClose(frame.InternalError, "poison")
	client.ExpectClose(frame.InternalError, "poison; another server has ended it in the same way")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
	if a := r.Record(); a["moves"].Int64() != 1 {
		t.Errorf("the record says %v", a)
	}
	if broken := r.broken(); broken != [3]uint64{} {
		t.Errorf("broken sessions: %v", broken)
	}
	if f := r.moves(); f[meter.Closed].Moved != 1 || f[meter.Closed].NotMoved != 1 {
		t.Errorf("counted: %+v", f)
	}
}

// Where the second server continues, or fails in another way, it was the first server's fault that it closed.
func TestServersEndDifferently(t *testing.T) {
	for name, then := range map[string]func(next *wstest.Peer){
		"it continues":         func(p *wstest.Peer) { p.Send(frame.Text, sessiontest.Partial("one")) },
		"it vanishes":          func(p *wstest.Peer) { p.Reset() },
		"it is restarted":      func(p *wstest.Peer) { p.SendClose(frame.ServiceRestart, "") },
		"it closes otherwise":  func(p *wstest.Peer) { p.SendClose(frame.NormalClosure, "") },
		"the client has gone ": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "vosk", 3, setup{})
			client, next, second, first := r.poisoned()
			if r.Backends[first].Health().Broken != 0 {
				t.Error("the first server is judged too early")
			}
			if then == nil {
				_ = client.Close()
			} else {
				then(next)
			}
			wstest.Eventually(t, "the first server is judged", func() bool { return r.Backends[first].Health().Broken == 1 })
			if name != "it continues" && then != nil {
				wstest.Eventually(t, "it moves again", func() (moved bool) {
					r.each(func(s *Session) { moved = s.failover.machine.Legs() == 3 })
					return moved
				})
			}
			if want := name == "it vanishes"; (r.broken()[second] == 1) != want {
				t.Errorf("broken sessions: %v, the second server is %d", r.broken(), second)
			}
			_ = client.Close()
		})
	}
}

// A session whose audio crashes servers at once, as soon as they hear it, is not given to all of them either.
func TestSessionCrashesServersAtOnce(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{})
	client, server, _ := r.began()
	for range failover.MaxDead {
		server.Reset()
		server = r.Scripts[0].Take()
		server.ExpectOwn(frame.Text, sessiontest.VoskConfig)
		server.Expect(frame.Binary, sessiontest.Chunk(0))
		r.on(func(s *Session) { s.failover.machine.Began = loop.Now() })
	}
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; moved from 3 servers that failed")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
}
