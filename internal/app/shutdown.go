package app

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Shutdown stops the proxy: it accepts no more clients, lets sessions finish within the drain time-out, closes the others with 1001,
// and closes the connections to the backends. It returns whether all sessions finished by themselves.
func (p *Proxy) Shutdown() (clean bool) {
	s := p.live.Load()
	p.drain()
	p.sessions.StopAccepting()
	p.follower.Close()
	p.log.Info("draining", "sessions", p.sessions.Active(), "timeout", s.DrainTimeout)
	clean = p.waitForSessions(s.DrainTimeout, func() {})
	if !clean && s.DrainTimeout > 0 {
		p.log.Warn("sessions did not finish in time, closing them", "sessions", p.sessions.Active())
	}
	p.sessions.Close()
	// Each side of a session has its own close time-out. One call misses sessions that are moving between event loops, so it is
	// repeated.
	p.waitForSessions(3*s.CloseTimeout, func() { p.sessions.EndAll(frame.GoingAway, "proxy shutting down") })
	p.sessions.EndTaps()
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.CloseTimeout)
	defer cancel()
	p.services.Close(ctx)
	p.background.Wait()
	if p.admin != nil { // before the loops, since the statistics need them
		p.hub.Close()
		_ = p.admin.Close()
	}
	_ = p.store.Close()
	p.descriptors.Close()
	p.loops.Close()
	p.endTracing()
	p.closeAccessLog()
	p.log.Info("stopped", "clean", clean)
	return clean
}

// waitForSessions waits until no client is connected, at most for the limit, and calls f repeatedly.
func (p *Proxy) waitForSessions(limit time.Duration, f func()) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for p.sessions.Active() > 0 {
		f()
		select {
		case <-look.C:
		case <-deadline.C:
			return p.sessions.Active() == 0
		}
	}
	return true
}
