package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// stalledChunk is what clients send to servers that read nothing. At most one is in a client's socket when its session stalls.
var stalledChunk = string(wstest.Noise(1, 8<<10))

// stall has a client send until its server takes nothing more, and returns how many messages that took.
func (r *rig) stall(client *wstest.Peer) (sent int) {
	r.T.Helper()
	before := uint64(0)
	r.on(func(s *Session) { before = s.scanner.Bytes })
	looks := 0 // a loop of the Go runtime's sockets does not read for the moment of each write
	wstest.Eventually(r.T, "the server takes nothing more", func() bool {
		for range 100 {
			taken, stalled := false, false
			r.on(func(s *Session) {
				taken = s.scanner.Bytes-before == uint64(sent*len(stalledChunk))
				stalled = s.client.Paused() && s.leg.up.to.Pending() > 0
			})
			switch {
			case stalled && looks == 20:
				return true
			case stalled:
				looks++
			case taken:
				looks = 0
				client.Send(frame.Binary, stalledChunk)
				sent++
			}
		}
		return false
	})
	return sent
}

// A client that closes behind messages that its server does not take is noticed, although it keeps its socket and the server never reads again.
func TestCloseBehindStall(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		service func(*route.Service)
		client  limits.Limits
		secured bool
	}{
		"one-shot": {profile: "one-shot"},
		"TLS":      {profile: "one-shot", secured: true},
		"reused":   {profile: "vosk"},
		"failover": {profile: "vosk", service: func(s *route.Service) { s.Failover, s.ReplayWindow = true, 10*time.Minute }},
		"watched":  {profile: "vosk", service: func(s *route.Service) { s.StallTimeout = time.Hour }},
		"rate":     {profile: "one-shot", client: limits.Limits{ByteRate: limits.Rate{N: 1 << 30, Per: time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := limitedRig(t, setup{Profile: c.profile, Script: new(wstest.Server), Service: func(s *route.Service) {
				if s.CloseTimeout = 50 * time.Millisecond; c.service != nil {
					c.service(s)
				}
			}}, limits.Limits{}, c.client)
			if c.secured {
				r.ServeTLS(nil)
			}
			client, server := r.Session()
			r.stall(client)
			client.Send(frame.Binary, sessiontest.Chunk(0))
			client.SendClose(frame.NormalClosure, "bye")
			client.ExpectClose(frame.NormalClosure, "bye")
			wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
			_, _ = client.Close(), server.Close()
			r.free()
		})
	}
}

// If the server reads on in time, it gets everything, and the close frame behind it. A client that goes on sending does not put its end off.
func TestCloseBehindStallThatEnds(t *testing.T) {
	r := newRig(t, setup{Script: new(wstest.Server)})
	client, server := r.Session()
	sent := r.stall(client)
	client.SendClose(frame.NormalClosure, "bye")
	var due loop.Instant
	noticed := func(s *Session) bool {
		return s.life.state == relaying && s.isLeaving()
	}
	over := false // the system has taken more than it seemed to
	wstest.Eventually(t, "the close frame is noticed", func() bool {
		r.on(func(s *Session) {
			if s.lookAtStall(); noticed(s) {
				due = s.timer.When()
			}
			over = s.life.state != relaying
		})
		return due != 0 || over
	})
	client.SendClose(frame.NormalClosure, "bye")
	wstest.Eventually(t, "the next one is read", func() (read bool) {
		r.on(func(s *Session) {
			s.lookForClose()
			unread := s.client.Unread()
			read = !noticed(s) || mayEndWithClose(unread[:max(0, len(unread)-len(client.Encode(true, frame.Close, []byte("..bye"))))])
			if noticed(s) && s.timer.When() != due {
				t.Errorf("the end was due at %v, and is at %v now", due, s.timer.When())
			}
		})
		return read
	})
	for range sent {
		server.Expect(frame.Binary, stalledChunk)
	}
	server.ExpectClose(frame.NormalClosure, "bye")
	server.SendClose(frame.NormalClosure, "bye")
	client.ExpectClose(frame.NormalClosure, "bye")
}

// A session that passes a lot to a server that is slow, but reads, reads nothing ahead.
func TestStallsThatEnd(t *testing.T) {
	r := newRig(t, setup{Script: new(wstest.Server)})
	client, server := r.Session()
	for looked := 0; looked < 3; {
		sent := r.stall(client)
		r.on(func(s *Session) {
			if !s.client.Paused() || !s.leg.up.to.Stalled() {
				return // a write that took its time had only seemed to stall
			}
			looked++
			s.account.silence.taken-- // it has taken something since the timer was set
			if s.lookAtStall(); s.client.Wants() || !s.account.silence.stalled.Active() {
				t.Error("the client is read")
			}
		})
		for range sent {
			server.Expect(frame.Binary, stalledChunk)
		}
	}
}
