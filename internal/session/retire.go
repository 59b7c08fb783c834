package session

import (
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
)

// Retire implements [loop.Retirer].
func (h *clientSide) Retire(*loop.Conn) { (*Session)(h).retire() }

// Retire implements [loop.Retirer].
func (h *backendSide) Retire(*loop.Conn) { (*Session)(h).retire() }

// retire ends the session after a panic has left it in nobody knows which state: both connections are closed at once, and the lease ends
// if it was the session's. The client is told if a frame can be sent to it.
func (s *Session) retire() {
	if s.client.Closed() { // gone already
		return
	}
	s.timer.Stop()
	s.deadline.Stop()
	if s.seek != nil {
		close(s.seek.ended)
		s.seek = nil
	}
	s.record.end(byProxy, frame.InternalError, mistake.Err.Error())
	if s.phase < lingering {
		s.tell()
	}
	if s.phase < seeking && s.backend.RetireLease((*backendSide)(s)) {
		s.record.Connection = backend.Discarded
	}
	s.phase = lingering
	s.gone()
}

// tell sends the client the close frame. If that cannot be done either, the client sees its connection end.
func (s *Session) tell() {
	defer func() { _ = recover() }() // it is the same mistake, which was logged
	s.down.sendClose(s.record.Code, s.record.Reason)
}
