package session

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/meter"
)

// KillAll ends the sessions that a backend serves now, as Kill does, spread evenly at random over a time, so that
// their clients do not all come back at once. Sessions that begin there later, or have left it when their turn comes, go on. KillAll
// returns how many there are, without waiting for their ends. It replaces an order for the same backend that is not completed, and
// StopAccepting cancels it. It must not be called on a loop.
func (s *Server) KillAll(backend, why string, within time.Duration) (sessions int) {
	all, _ := s.registry.all()
	var ids []ID
	s.each(all, func(session *Session) {
		if session.servedBy(backend) {
			ids = append(ids, session.record.ID)
		}
	})
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ctx, cancel := context.WithCancel(s.drained)
	order := &killing{ids: ids, backend: backend, reason: killReason(why), within: within, cancel: cancel}
	s.mu.Lock()
	if before := s.killings[backend]; before != nil {
		before.cancel()
	}
	s.killings[backend] = order
	s.mu.Unlock()
	started := s.pending.Go(func() {
		defer s.options.Guard.Recover("ending sessions", nil)
		defer s.killed(order)
		order.run(ctx, s)
	})
	if !started { // the server has closed, which ends all sessions
		s.killed(order)
	}
	return len(ids)
}

// killing is an order to end sessions of a backend. It is static, and run by a goroutine of its own.
type killing struct {
	ids             []ID
	backend, reason string
	within          time.Duration
	cancel          context.CancelFunc
}

// run ends the sessions, one after the other, until ctx ends. Each has an equal part of the time and ends at random in it.
func (k *killing) run(ctx context.Context, s *Server) {
	begun, part := time.Now(), k.within/time.Duration(max(1, len(k.ids)))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, id := range k.ids {
		if part > 0 {
			timer.Reset(time.Until(begun.Add(time.Duration(i)*part + rand.N(part))))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		if session, _ := s.registry.find(id.Number); session != nil {
			s.each([]*Session{session}, func(session *Session) {
				if session.servedBy(k.backend) {
					session.end(meter.Killed, frame.ServiceRestart, k.reason)
				}
			})
		}
	}
}

// killed forgets an order that is completed, cancelled or replaced.
func (s *Server) killed(k *killing) {
	k.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killings[k.backend] == k {
		delete(s.killings, k.backend)
	}
}

// servedBy reports whether a backend serves the session, and its end is not decided. It is called on the session's loop.
func (s *Session) servedBy(backend string) bool {
	return s.record.Ended.IsZero() && s.record.Backend != nil && s.record.Backend.Name() == backend
}
