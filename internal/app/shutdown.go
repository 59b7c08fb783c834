package app

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// Shutdown takes the proxy down: no more clients are accepted, sessions may finish within the drain time, those that have
// not are closed with 1001, and the connections to the backends are closed in order. It returns whether all sessions
// finished by themselves.
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
	// Each side's part in closing has its own limit. Sessions that are just moving between event loops are missed by
	// one call, so it is repeated.
	p.waitForSessions(3*s.CloseTimeout, func() { p.sessions.EndAll(frame.GoingAway, "proxy shutting down") })
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.CloseTimeout)
	defer cancel()
	p.services.Close(ctx)
	p.background.Wait()
	if p.admin != nil { // before the loops, whose part of the statistics goes with them
		_ = p.admin.Close()
	}
	_ = p.store.Close()
	p.descriptors.Close()
	p.loops.Close()
	p.log.Info("stopped", "clean", clean)
	return clean
}

// waitForSessions waits until no client is connected, at most for the given time, and calls f now and then.
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
