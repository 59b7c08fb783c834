package chaos

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	// watchInterval is the time between two checks of a proxy.
	watchInterval = 250 * time.Millisecond
	// maxBurst is how many upgrade requests a hostile server may see within a second.
	maxBurst = 50
)

// watcher checks the statistics of a proxy, and what its servers see, during the whole run. One goroutine owns it.
type watcher struct {
	proxy    *proxy
	services []*service
	journal  *kit.Journal
	operated *service        // the service whose caps change
	healthy  map[string]bool // by URL: healthy servers
	above    map[string]bool // servers that saw more than their cap at the last check
}

func newWatcher(p *proxy, services []*service, j *kit.Journal, operated *service) *watcher {
	w := &watcher{proxy: p, services: services, journal: j, operated: operated, healthy: make(map[string]bool), above: make(map[string]bool)}
	for _, s := range services {
		for _, b := range s.healthy {
			w.healthy[b.sim.URL()] = true
		}
	}
	return w
}

// watch checks until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	for kit.Wait(ctx, watchInterval) == nil {
		s, err := w.proxy.Stats(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case w.proxy.Failure() != nil:
			w.journal.Violation(w.proxy.Name, "the proxy has ended", nil, "%v", w.proxy.Failure())
			return
		case err != nil:
			w.journal.Violation(w.proxy.Name, "the admin API does not answer", nil, "%v", err)
		default:
			w.judge(s)
		}
		for _, s := range w.services {
			w.count(s)
		}
	}
}

// judge checks the statistics against the rules.
func (w *watcher) judge(s *api.Stats) {
	for i := range s.Backends {
		b := &s.Backends[i]
		limit := b.Cap
		if w.operated != nil && b.Service == w.operated.name { // sessions continue when the operator lowers the cap
			limit = w.operated.cap
		}
		if b.Used() > limit {
			w.journal.Violation(b.Service, "more connections than the cap", nil, "%s: %d connections, the cap is %d: %+v", b.Name, b.Used(), limit, b.Pool)
		}
		if held := uint64(b.Leased + b.Resetting); b.Totals.Leased != b.Totals.Returned+b.Totals.Discarded+held {
			w.journal.Violation(b.Service, "leases do not add up", nil, "%s: %+v", b.Name, b.Pool)
		}
		if there := uint64(b.Idle + b.Leased + b.Resetting); b.Totals.Dialed != b.Totals.Discarded+b.Totals.RetiredIdle+there {
			w.journal.Violation(b.Service, "connections do not add up", nil, "%s: %+v", b.Name, b.Pool)
		}
		if !w.healthy[b.URL] {
			continue
		}
		if b.CircuitOpened > 0 {
			w.journal.Violation(b.Service, "the circuit of a healthy server opened", nil, "%s: %s", b.Name, b.CircuitReason)
		}
		if b.Broken > 0 {
			w.journal.Violation(b.Service, "a healthy server has broken sessions", nil, "%s: %d", b.Name, b.Broken)
		}
	}
}

// count checks what the servers of a service see.
func (w *watcher) count(s *service) {
	for _, b := range s.healthy {
		w.compare(s, b.name, b.sim.Stats().Connections, s.cap)
	}
	if s.hostile == nil {
		return
	}
	r := s.hostile.read()
	w.compare(s, s.hostile.name, r.open, hostileCap)
	if r.burst > maxBurst {
		w.journal.Violation(s.name, "flood", nil, "%s got %d upgrade requests within a second, more than %d", s.hostile.name, r.burst, maxBurst)
	}
}

// compare compares the connections that a server sees with its cap. It ignores what lasts only from one check to the next: the server
// needs that time to notice that the proxy closed a connection whose close frame the server did not answer.
func (w *watcher) compare(s *service, server string, open, limit int) {
	above := open > limit
	if above && w.above[server] {
		w.journal.Violation(s.name, "a server saw more connections than its cap", nil, "%s sees %d at once; its cap is %d", server, open, limit)
	}
	w.above[server] = above
}
