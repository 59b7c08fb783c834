package chaos

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/stats"
)

const (
	// watchInterval is the time between two looks at a proxy.
	watchInterval = 250 * time.Millisecond
	// maxBurst is the most upgrade requests within a second that a hostile server may see: some tens.
	maxBurst = 50
)

// watcher looks at a proxy's statistics and at what the servers see, all the time. It is owned by one goroutine.
type watcher struct {
	proxy    *proxy
	services []*service
	ledger   *ledger
	operand  *service        // whose caps change
	healthy  map[string]bool // by URL: healthy servers
	above    map[string]bool // servers that saw more than their cap at the last look
}

func newWatcher(p *proxy, services []*service, l *ledger, operand *service) *watcher {
	w := &watcher{proxy: p, services: services, ledger: l, operand: operand, healthy: make(map[string]bool), above: make(map[string]bool)}
	for _, s := range services {
		for _, b := range s.healthy {
			w.healthy[b.sim.URL()] = true
		}
	}
	return w
}

// watch looks until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	for wait(ctx, watchInterval) == nil {
		s, err := w.proxy.Stats(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case w.proxy.running() != nil:
			w.ledger.wrong(w.proxy.name, "the proxy has ended", "%v", w.proxy.running())
			return
		case err != nil:
			w.ledger.wrong(w.proxy.name, "the admin API does not answer", "%v", err)
		default:
			w.judge(s)
		}
		for _, s := range w.services {
			w.count(s)
		}
	}
}

// judge holds the statistics against what always holds.
func (w *watcher) judge(s *stats.Stats) {
	for i := range s.Backends {
		b := &s.Backends[i]
		limit := b.Cap
		if w.operand != nil && b.Service == w.operand.name { // sessions go on when the operator lowers the cap
			limit = w.operand.cap
		}
		if b.Used() > limit {
			w.ledger.wrong(b.Service, "more connections than the cap", "%s: %d connections, the cap is %d: %+v", b.Name, b.Used(), limit, b.Stats)
		}
		if held := uint64(b.Leased + b.Resetting); b.Totals.Leased != b.Totals.Returned+b.Totals.Discarded+held {
			w.ledger.wrong(b.Service, "leases do not add up", "%s: %+v", b.Name, b.Stats)
		}
		if there := uint64(b.Idle + b.Leased + b.Resetting); b.Totals.Dialed != b.Totals.Discarded+b.Totals.RetiredIdle+there {
			w.ledger.wrong(b.Service, "connections do not add up", "%s: %+v", b.Name, b.Stats)
		}
		if !w.healthy[b.URL] {
			continue
		}
		if b.CircuitOpened > 0 {
			w.ledger.wrong(b.Service, "the circuit of a healthy server opened", "%s: %s", b.Name, b.CircuitReason)
		}
		if b.Broken > 0 {
			w.ledger.wrong(b.Service, "a healthy server is said to have broken sessions", "%s: %d", b.Name, b.Broken)
		}
	}
}

// count holds what the servers of a service see against what they may.
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
		w.ledger.wrong(s.name, "flood", "%s got %d upgrade requests within a second, more than %d", s.hostile.name, r.burst, maxBurst)
	}
}

// compare holds the connections that a server sees against its cap. What lasts shorter than from one look to the next is the time
// that a server takes to notice a connection that the proxy has cut, because the server did not answer its close frame.
func (w *watcher) compare(s *service, server string, open, limit int) {
	above := open > limit
	if above && w.above[server] {
		w.ledger.wrong(s.name, "a server saw more connections than its cap", "%s sees %d at once; its cap is %d", server, open, limit)
	}
	w.above[server] = above
}
