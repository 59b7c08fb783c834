package relay

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
	if id.Process != s.shared.Process {
		return false
	}
	reason := KillReason(why)
	if waits, told := s.registry.endWait(id.Number, reason); waits {
		return told
	}
	if session := s.Find(id); session != nil {
		s.Each([]*Session{session}, func(session *Session) {
			if killed = session.record.Ended.IsZero(); killed {
				session.End(meter.Killed, frame.ServiceRestart, reason)
			}
		})
	}
	return killed
}

// KillReason returns the reason that the client of a session gets that an operator ends. why is the operator's own; empty for none.
func KillReason(why string) string {
	if why == "" {
		return killedBy
	}
	return killedBy + ": " + why
}
