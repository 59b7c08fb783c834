package admission

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// stormCalm is how long no handshake may be dropped until a storm is over.
const stormCalm = 10 * time.Second

// storms logs dropped handshakes: a line when a storm begins, and one when it is over. Any goroutine may use it.
type storms struct {
	log *slog.Logger // static

	mu          sync.Mutex
	begun, last time.Time           // guarded by mu; begun is zero while there is no storm
	dropped     [dropReasons]uint64 // guarded by mu: in this storm
	timer       *time.Timer         // guarded by mu; nil while there is no storm
	closed      bool                // guarded by mu
}

// note notes a dropped handshake. from is its address, if that is known, and limit how many may be unfinished.
func (s *storms) note(why dropReason, from netip.Addr, limit int) {
	s.mu.Lock()
	s.last = time.Now()
	s.dropped[why]++
	begins := s.begun.IsZero() && !s.closed
	if begins {
		s.begun = s.last
		s.timer = time.AfterFunc(stormCalm, s.check)
	}
	s.mu.Unlock()
	if !begins {
		return
	}
	attrs := []any{"unfinished", limit, "reason", dropReasonNames[why]}
	if from.IsValid() {
		attrs = append(attrs, "for_example", from.String())
	}
	s.log.Warn("too many unfinished handshakes: dropping the oldest", attrs...)
}

// check is called by the timer: it ends the storm, if it is over.
func (s *storms) check() {
	s.mu.Lock()
	if quiet := time.Since(s.last); quiet < stormCalm && !s.closed {
		s.timer.Reset(stormCalm - quiet)
		s.mu.Unlock()
		return
	}
	begun, last, dropped := s.begun, s.last, s.dropped
	s.begun, s.timer, s.dropped = time.Time{}, nil, [dropReasons]uint64{}
	s.mu.Unlock()
	if begun.IsZero() {
		return
	}
	attrs := []any{"after", last.Sub(begun).Round(time.Millisecond)}
	for i, n := range dropped {
		if n > 0 {
			attrs = append(attrs, dropReasonNames[i], n)
		}
	}
	s.log.Info("handshakes are no longer dropped", attrs...)
}

// close ends a storm at once, and no longer starts a timer.
func (s *storms) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.check()
}
