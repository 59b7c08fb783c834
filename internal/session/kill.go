package session

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// killedBy begins the reason that the client of a session gets that an operator ends.
const killedBy = "ended by an operator"

// Kill ends a session for an operator: its client gets 1012 (service restart) and the reason; a client that still waits gets HTTP 503.
// It returns false if there is no such session, or its end was decided before. It must not be called on a loop.
func (s *Sessions) Kill(id record.ID, why string) (killed bool) {
	if id.Process != s.options.Process {
		return false
	}
	reason := killReason(why)
	if waits, told := s.registry.endWait(id.Number, reason); waits {
		return told
	}
	if session, _ := s.registry.find(id.Number); session != nil {
		s.each([]*Session{session}, func(session *Session) {
			if killed = session.record.Ended.IsZero(); killed {
				session.end(meter.Killed, frame.ServiceRestart, reason)
			}
		})
	}
	return killed
}

// killReason returns what the client of an ended session is told.
func killReason(why string) string {
	if why == "" {
		return killedBy
	}
	return killedBy + ": " + why
}
