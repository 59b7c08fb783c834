package session

import (
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/backend"
)

// Service is what a client asks for by path: a set of backends that speak the same protocol. It is immutable.
type Service struct {
	// Name is what records and logs call it.
	Name string
	// Path is the path that clients ask for; empty for any.
	Path string
	// Backends are the servers that serve it.
	Backends []*backend.Backend
}

// lease takes an idle connection to the backend that is loaded least, by the share of its cap in use; ties are random.
// Sessions are long, so what counts is what is in use now, not what was handed out before. It never waits, and returns
// false when no backend has an idle connection.
func (s *Service) lease() (*backend.Conn, bool) {
	for {
		var best *backend.Backend
		least, ties := 0.0, 0
		for _, b := range s.Backends {
			load, idle := b.Load()
			switch {
			case !idle:
			case best == nil || load < least:
				best, least, ties = b, load, 1
			case load == least:
				if ties++; rand.IntN(ties) == 0 {
					best = b
				}
			}
		}
		if best == nil {
			return nil, false
		}
		if conn, ok := best.Lease(); ok {
			return conn, true
		}
		// Others took its last idle connection in between: look again.
	}
}
