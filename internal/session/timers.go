package session

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// What a session's timers are set for.
const (
	timerIdle     loop.Purpose = iota // the next look for idleness
	timerDuration                     // the session has lasted too long
	timerEnding                       // the client has ended what it sends, and is not read
	timerLeave                        // the backend has had its time to answer a client that has left
	timerFinish                       // the frame on its way to the client has had its time to be completed
	timerLinger                       // the client has had its time to close
)

// Expired implements [loop.TimerHandler].
func (h *clientSide) Expired(_ *loop.Conn, t *loop.Timer) {
	s := (*Session)(h)
	switch t.Purpose() {
	case timerIdle:
		s.watchIdle()
	case timerDuration:
		s.end(byProxy, frame.PolicyViolation, "session limit reached")
	case timerEnding:
		s.clientEnded()
	case timerLeave:
		s.answerClient()
	case timerFinish:
		s.release()
	case timerLinger:
		s.gone()
	}
}

// Expired implements [loop.TimerHandler] for the timers of the backend's connection.
func (h *backendSide) Expired(c *loop.Conn, t *loop.Timer) { h.backend.Expired(c, t) }
