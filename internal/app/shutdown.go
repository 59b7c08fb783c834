package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// shuttingDown is what the clients of sessions are told that do not finish by themselves.
const shuttingDown = "proxy shutting down"

// Shutdown is Drain followed by Close.
func (p *Proxy) Shutdown() (clean bool) {
	clean = p.Drain()
	p.Close()
	return clean
}

// Drain ends the work of the proxy in order. The proxy is not ready from the beginning on, and still accepts clients for the shutdown
// delay. Then it closes its listeners, turns away clients that wait, and closes idle connections to the servers. It lets sessions finish
// by themselves within the drain time-out, of which the last part ends those that are left, one after the other, with 1001. Reconfigure
// may change these times meanwhile. The configuration is followed until no session is left, so that a revoked key ends its sessions here,
// too. Drain returns whether all sessions finished by themselves. Call it once, and then Close.
func (p *Proxy) Drain() (clean bool) {
	p.succession.end()
	p.end.Store(&ending{began: time.Now()})
	if p.accepts { // otherwise no load balancer sends it clients
		p.delay()
	}
	p.end.Store(&ending{began: p.end.Load().began, closed: time.Now()})
	if p.acme != nil {
		p.acme.Close() // before the listeners: it opens one of its own if none answers for it
	}
	p.sessions.StopAccepting()
	p.services.Release() // another proxy, such as this one's successor, may need the servers' places
	p.poke()
	return p.finish(nil)
}

// finish lets sessions finish, and ends those that do not in time. No clients are accepted. hurry is that of awaitSessions.
func (p *Proxy) finish(hurry <-chan struct{}) (clean bool) {
	if socket := p.settings.AdminSocket != "" && takeover.Supported() == nil; !p.view().Reachable(p.live.Load().Token != "", socket) { // no client can come back
		p.sessions.NoReturns()
	}
	p.log.Info("draining", "sessions", p.sessions.Active(), timeout(p.end.Load(), p.live.Load()))
	clean = p.awaitSessions(hurry)
	p.follower.Close()
	// One call misses sessions that are moving between event loops, so it is repeated. Each side of a session has its own close time-out.
	p.sessions.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*relay.LastCloseTimeout)
	defer cancel()
	eventually(ctx, func() bool {
		p.sessions.EndAll(frame.GoingAway, shuttingDown)
		return p.sessions.Active() == 0
	})
	p.clean = clean
	return clean
}

// delay waits for the shutdown delay.
func (p *Proxy) delay() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	said := time.Duration(0)
	for {
		s := p.live.Load()
		left := time.Until(p.end.Load().timetable(&s.Settings).closes)
		if left <= 0 {
			return
		}
		if said != s.ShutdownDelay {
			said = s.ShutdownDelay
			p.log.Info("shutting down: not ready, and still accepting clients", "sessions", p.sessions.Active(), "delay", said)
		}
		timer.Reset(left)
		select {
		case <-timer.C:
		case <-p.reconfigured:
		}
	}
}

// awaitSessions waits until there are no sessions, and ends those that do not finish in time. It returns whether all have finished by
// themselves. When hurry is closed, sessions that had the time of an upgrade get that of a shutdown, from then on.
func (p *Proxy) awaitSessions(hurry <-chan struct{}) (clean bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	end, before := p.end.Load(), p.live.Load()
	cancel, ends := func() {}, time.Time{} // of the order to end sessions; ends is zero if there is none
	defer func() { cancel() }()
	report := end.closed.Add(reportAfter(0))
	for p.sessions.Active() > 0 {
		s := p.live.Load()
		now := time.Now()
		if end.timeout(&s.Settings) != end.timeout(&before.Settings) {
			before, end = s, &ending{began: end.began, closed: end.closed, changed: now, handedOver: end.handedOver}
			p.end.Store(end)
		}
		select {
		case <-hurry:
			hurry, end = nil, &ending{began: end.began, closed: now}
			p.end.Store(end)
			p.log.Info("shutting down", "sessions", p.sessions.Active(), timeout(end, s))
		default:
		}
		t := end.timetable(&s.Settings)
		next := report
		switch {
		case t.over.IsZero() || now.Before(t.spread): // wait
			if cancel(); !ends.IsZero() {
				p.log.Info("going on to wait for sessions", "sessions", p.sessions.Active(), timeout(end, s))
			}
			if ends = (time.Time{}); !t.over.IsZero() {
				next = earlier(next, t.spread)
			}
		case now.Before(t.over):
			if !t.over.Equal(ends) {
				cancel()
				ends = t.over
				p.log.Warn("sessions did not finish in time, closing them one by one", "sessions", p.sessions.Active(), "within", t.over.Sub(now).Round(time.Millisecond))
				cancel = p.sessions.EndAllWithin(frame.GoingAway, shuttingDown, t.over.Sub(now))
			}
			next = earlier(next, t.over)
		default:
			if end.timeout(&s.Settings) > 0 && ends.IsZero() {
				p.log.Warn("sessions did not finish in time, closing them", "sessions", p.sessions.Active())
			}
			return false
		}
		if !now.Before(report) {
			attributes := []any{"sessions", p.sessions.Active(), "for", now.Sub(end.closed).Round(time.Second)}
			if !t.over.IsZero() {
				attributes = append(attributes, "left", t.over.Sub(now).Round(time.Second))
			}
			p.log.Info("still draining", attributes...)
			report = now.Add(reportAfter(now.Sub(end.closed)))
			continue
		}
		timer.Reset(next.Sub(now))
		select {
		case <-timer.C:
		case <-p.sessions.Emptied():
		case <-p.reconfigured:
		case <-hurry:
		}
	}
	return p.sessions.Stopped() == 0
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// timeout returns the time that sessions have to finish as the log says it.
func timeout(e *ending, s *Settings) slog.Attr {
	limit := e.timeout(&s.Settings)
	if limit == settings.NoLimit {
		return slog.String("timeout", "none")
	}
	return slog.Duration("timeout", limit)
}

// Close ends what Drain has left: the connections to the backends, the admin API, and the proxy's goroutines. It is called after Drain,
// when Reconfigure is no longer called.
func (p *Proxy) Close() {
	p.sessions.EndTaps()
	p.problems.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*relay.LastCloseTimeout)
	defer cancel()
	p.services.Close(ctx)
	unlock := p.leaveFleet()
	p.stop()
	p.background.Wait()
	p.history.release()
	p.closeAdmin() // before the loops, since the statistics need them
	_ = p.store.Close()
	p.descriptors.Close()
	p.loops.Close()
	unlock()
	p.endTracing()
	p.closeAccessLog()
	p.log.Info("stopped", "clean", p.clean, "told", p.sessions.Stopped(), "took", time.Since(p.end.Load().began).Round(time.Millisecond))
}

// eventually calls f again and again until it returns true, or ctx ends.
func eventually(ctx context.Context, f func() bool) {
	for !f() {
		if !tasks.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}
