package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Retire implements [loop.Retirer].
func (h *clientSide) Retire(*loop.Conn) { (*Session)(h).retire() }

// Retire implements [loop.Retirer].
func (h *backendSide) Retire(*loop.Conn) { (*Session)(h).retire() }

// retire ends the session after a panic, which may have left it in any state: both connections are closed at once, and the lease ends
// if it was the session's. The client is told if a frame can be sent to it.
func (s *Session) retire() {
	was, needed := s.life.retire()
	if !needed {
		return
	}
	s.timer.Stop()
	s.deadline.Stop()
	s.stopKeepalives()
	s.stopSearch()
	s.endFailover()
	s.record.End(byProxy, meter.InternalError, frame.InternalError, panics.Err.Error())
	if was != lingering {
		s.tell()
	}
	if conn := s.leg.conn; conn != nil && conn.RetireLease((*backendSide)(s)) {
		s.record.Outcome = backend.Discarded
	}
	s.forget()
}

// tell sends the client the close frame. If that cannot be done either, the client sees its connection end.
func (s *Session) tell() {
	defer func() { _ = recover() }() // it is the same panic, which was logged
	if !s.leg.down.midFrame() {
		s.sendClose(s.record.Code, s.record.Reason)
	}
}

// endFailover gives back what is kept for another server.
func (s *Session) endFailover() {
	defer func() { _ = recover() }() // the bug may be there, and was logged
	if f := s.failover; f != nil {
		s.failover = nil
		f.releaseMeter()
		f.end()
	}
}
