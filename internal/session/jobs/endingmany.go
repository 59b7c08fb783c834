package jobs

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// KillAll ends the sessions that a backend serves now, as Kill does, spread evenly at random over a time, so that
// their clients do not all come back at once. Sessions that begin there later, or have left it when their turn comes, continue. KillAll
// returns how many there are, without waiting for their ends. It replaces an order for the same backend that is not completed, and
// Close cancels it. It must not be called on a loop.
func (j *Jobs) KillAll(backend, why string, within time.Duration) (sessions int) {
	o := &order{backend: backend, class: meter.Killed, code: frame.ServiceRestart, reason: relay.KillReason(why), within: within}
	j.carryOut(o)
	return len(o.ids)
}

// EndAllWithin ends the sessions that there are now, as EndAll does, but spread over a time as KillAll spreads them, and returns without
// waiting for their ends. It replaces an order of its own that is not completed; cancel and Close cancel it. It must not be called on a
// loop.
func (j *Jobs) EndAllWithin(code frame.CloseCode, reason string, within time.Duration) (cancel func()) {
	o := &order{class: meter.Shutdown, code: code, reason: reason, within: within}
	j.carryOut(o)
	return o.cancel
}

// order is an order to end sessions. It is static once it runs, in a goroutine of its own.
type order struct {
	backend string // whose sessions end; empty for all sessions
	class   meter.Class
	code    frame.CloseCode
	reason  string
	within  time.Duration
	ids     []record.ID // of the sessions, in the order in which they end
	cancel  context.CancelFunc
}

// carryOut finds the sessions of an order and starts to end them. It replaces an order for the same backend.
func (j *Jobs) carryOut(o *order) {
	j.sessions.Each(j.sessions.All(), func(session *relay.Session) {
		if o.concerns(session) {
			o.ids = append(o.ids, session.Record().ID)
		}
	})
	rand.Shuffle(len(o.ids), func(i, j int) { o.ids[i], o.ids[j] = o.ids[j], o.ids[i] })
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(j.closing)
	j.mu.Lock()
	if before := j.orders[o.backend]; before != nil {
		before.cancel()
	}
	j.orders[o.backend] = o
	j.mu.Unlock()
	started := j.pending.Go(func() {
		defer j.guard.Recover("ending sessions", nil)
		defer j.forgetOrder(o)
		o.run(ctx, j)
	})
	if !started { // the server has closed
		j.forgetOrder(o)
	}
}

// concerns reports whether the session is to end. It is called on the session's loop.
func (o *order) concerns(s *relay.Session) bool {
	r := s.Record()
	switch {
	case !r.Ended.IsZero(): // its end is decided
		return false
	case o.backend == "":
		return true
	}
	return r.Backend != nil && backend.Matches(r.Backend.Name(), o.backend)
}

// run ends the sessions, one after the other, until ctx ends. Each has an equal part of the time and ends at random in it.
func (o *order) run(ctx context.Context, j *Jobs) {
	begun, part := time.Now(), o.within/time.Duration(max(1, len(o.ids)))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, id := range o.ids {
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
		if session := j.sessions.Find(id); session != nil {
			j.sessions.Each([]*relay.Session{session}, func(session *relay.Session) {
				if o.concerns(session) {
					session.End(o.class, o.code, o.reason)
				}
			})
		}
	}
}

// forgetOrder forgets an order that is completed, cancelled or replaced.
func (j *Jobs) forgetOrder(o *order) {
	o.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.orders[o.backend] == o {
		delete(j.orders, o.backend)
	}
}
