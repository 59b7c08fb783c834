//go:build unix

package e2e

import (
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// cappedServer echoes, and knows how many connections it may have at each moment. When its cap is lowered, what it has may
// stay, but must not grow: then the largest number that was allowed comes down with what the proxy says it still has.
type cappedServer struct {
	*wstest.LibraryServer

	mu      sync.Mutex
	cap     int // as the configuration says since the last change; 0 for not at all
	allowed int
	worst   int // how many there were beyond what was allowed
}

func startCapped(t testing.TB) *cappedServer {
	t.Helper()
	s := &cappedServer{LibraryServer: wstest.StartLibraryServer(t, wstest.LibraryEcho)}
	s.OnOpen(func(open int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.worst = max(s.worst, open-s.allowed)
	})
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.worst > 0 {
			t.Errorf("%s had %d connections more than it was to have", s.URL, s.worst)
		}
	})
	return s
}

// set notes a cap before it is written to the configuration.
func (s *cappedServer) set(cap int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cap = cap
	s.allowed = max(s.allowed, cap)
}

// observe notes how many connections a proxy reports that has the cap in force, those that are being dialed included.
func (s *cappedServer) observe(b backendStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.URL == s.URL && b.Cap == s.cap {
		s.allowed = max(s.cap, b.Dialing+b.Idle+b.Leased+b.Resetting+b.Retiring)
	}
}
