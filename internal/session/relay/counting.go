package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file counts what happens to sessions, for the backends that serve them. What is counted for each frame is in relay.go.

// reply is what is known of the first reply: the first data frame that the server sends after the client's first whole message. What a
// server sends before it was asked is no reply.
type reply uint8

const (
	unasked  reply = iota // the client has not sent a whole message
	awaited               // it has
	received              // the server has replied
)

// clientSpoke notes when the client's first message has come.
func (s *Session) clientSpoke() { s.reply, s.account.spoke = awaited, loop.Now() }

// serverReplied notes the first reply, unless the server said that it cannot serve the session, which another one may.
func (s *Session) serverReplied() {
	if s.life.state == moving {
		return
	}
	s.reply = received
	s.record.FirstReply = time.Duration(loop.Now() - s.account.spoke)
	s.meter.FirstReply.Observe(s.record.FirstReply)
	if t := s.record.Trace; t.Sampled() {
		t.Replied = time.Now()
	}
}

// countBegin counts the session, for the backend that serves it first.
func (s *Session) countBegin(conn *backend.Conn) {
	s.countFor(conn.Backend())
	s.meter.SessionBegan()
	s.meter.Wait.Observe(s.record.Waited)
}

// countFor counts for another backend from now on.
func (s *Session) countFor(b *backend.Backend) {
	if s.record.Backend == b {
		return
	}
	before := s.meter
	s.record.Backend, s.meter = b, b.HoldMeter()
	if s.client != nil {
		s.passed = s.meter.Relayed(s.client.Loop().ID())
	}
	if before != nil {
		before.Release()
	}
}

// countEnd counts the end of the session, for the backend that served it last. The event in which the session ends may count frames
// after that, so the backend's counters are held until the event is over.
func (s *Session) countEnd() {
	r := &s.record
	s.meter.SessionEnded(r.By, uint16(r.Code), r.Class)
	s.meter.Session.Observe(r.Ended.Sub(r.Leased))
	s.client.Loop().Later(s.meter.Release)
	s.failover.releaseMeter()
}
