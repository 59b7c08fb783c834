package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file carries out what a session's life decides about its end.

// recordEnd notes who ends the session and why.
func (s *Session) recordEnd(e *event) {
	if e.kind == notServed && s.leg.conn == nil { // it has searched for long enough
		s.failover.endAsLost(e)
	}
	s.record.Relayed = s.relayed() // before the end: without a connection, only what is recorded counts after that
	s.record.End(e.by, e.class, e.code, e.reason)
	if s.leg.conn == nil {
		s.failover.endUnmoved(e)
	}
	if e.class == meter.Shutdown {
		s.sessions.stopped.Add(1)
	}
}

// relayClose tells the backend that the client has ended its part, if the connection serves no other session.
func (s *Session) relayClose(e *event) {
	if s.leg.conn.Profile().Reuse == profile.OneShot {
		s.leg.conn.SendClose(e.payload)
	}
}

// sendClose sends the client its close frame, at a frame boundary.
func (s *Session) sendClose(code frame.CloseCode, reason string) {
	payload := closePayload(code, reason)
	if s.leg.conn == nil {
		writeControl(s.client, frame.Close, payload, false)
		return
	}
	s.leg.down.close = &payload
	s.leg.down.insert()
}

// closePayload returns the payload of a client's close frame. A code that is only for logs, such as 1006 of a client that has ended its direction alone,
// must not be in it (RFC 6455, section 7.4.1).
func closePayload(code frame.CloseCode, reason string) []byte {
	if code != frame.NoStatus && !code.Sendable() {
		code = frame.GoingAway
	}
	return frame.ClosePayload(code, reason)
}

// endLease ends the lease; the connection goes back to the pool, or is closed.
func (s *Session) endLease() {
	l := &s.leg
	s.stopKeepalives()
	ending := backend.Ending{
		Traffic: l.traffic(l.sent), MidFrame: l.sent.midFrame, Code: frame.GoingAway, Text: "session ended",
		Fault: l.fault, Full: l.full, Slow: l.slow, Alike: l.alike, Client: s.voter(), Hurried: s.record.Class == meter.Shutdown,
	}
	if closed := s.record.Class == meter.Normal || s.record.Class == meter.Application; closed && s.record.By == byClient &&
		l.conn.Profile().Reuse == profile.OneShot && s.record.Code.Sendable() { // as if its own close frame had been passed on
		ending.Code, ending.Text = s.record.Code, s.record.Reason
	}
	if s.record.By == byBackend {
		ending.Code, ending.Text = s.record.Code, "" // the answer to its close frame
		if l.fault == "" {
			ending.ClosedWith = s.record.Code
		}
	}
	s.record.Relayed = s.relayed()
	s.endAccount()
	if s.failover != nil {
		l.conn.AddHeard(s.failover.tracker.Heard())
	}
	s.record.Outcome = l.conn.End(ending)
	s.leg = leg{}
}

// forget ends the session for good.
func (s *Session) forget() {
	s.tap.Forgotten()
	s.tap = nil
	s.account.affinity.end()
	if s.failover != nil {
		s.failover.end()
	}
	s.account.silence.stopTimers()
	s.client.Close()
	s.leaveLimits()
	used := s.used()
	s.record.Used = &used
	if book := s.sessions.options.Book; book != nil {
		book(s.newUsage())
	}
	s.record.Service.Variants.Forget(s.variant)
	s.sessions.history.Add(&s.record) // before it leaves the registry, so that an operator always finds it in one of them
	s.sessions.registry.remove(s)
	s.shard.ended[s.record.Code]++
	if s.sessions.active.Add(-1) == 0 {
		tasks.Wake(s.sessions.emptied)
	}
	s.countEnd()
	s.record.Log(s.sessions.shared.Log)
	if ended := s.sessions.options.Ended; ended != nil {
		ended(&s.record)
	}
}
