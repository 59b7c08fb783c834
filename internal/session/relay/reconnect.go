package relay

import (
	"net"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Resume brings a client back to its session. It owns nc if it returns no error. The error may be a [handshake.Refusal]. It must not be
// called on a loop.
func (s *Sessions) Resume(service *route.Service, nc net.Conn, req *handshake.Request, client *record.Client, asked resume.Asked) error {
	line, err := s.lines.Find(asked.Token, service.Name, client)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	posted := line.Post(func() {
		err := panics.Err // answer also after a panic
		defer func() { done <- err }()
		err = line.Resume(asked, func() (loop.Socket, error) {
			_ = nc.SetDeadline(time.Time{}) // the handshake's
			return loop.Detach(nc)
		}, req)
		if side, ok := loop.As[*clientSide](line.Conn().Handler()); ok && err == nil {
			(*Session)(side).renew(client)
		}
	})
	if !posted {
		return route.Unavailable("shutting down")
	}
	return <-done
}

// MayResume returns an error unless there is a session of the service that a client with the right credential may come back to.
func (s *Sessions) MayResume(service *route.Service, asked resume.Asked) error {
	return s.lines.Knows(asked.Token, service.Name)
}

// EndParked ends the session of a service that has waited longest for its client, so that another client can be served.
func (s *Sessions) EndParked(service *route.Service) { s.lines.EndOldest(service.Name) }

// NoReturns ends the sessions that wait for their clients, and has no other wait: no client can come back any more.
func (s *Sessions) NoReturns() { s.lines.Close() }

// Parked implements [resume.Parker]: the server of a session without its client is kept alive.
func (h *clientSide) Parked(parked bool) {
	s := (*Session)(h)
	s.KeepServerAlive(parked)
	if parked {
		s.checkCredential()
	}
}
