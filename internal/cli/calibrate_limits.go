package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// proxyLimits are the limits of a proxy that keep sessions from the server in a step: they would pass for the server's. The proxy is asked while the step
// runs: once the server has recovered, nothing is short any longer, and other proxies have the places. The goroutine of the search owns it. A nil pointer is
// for no proxy.
type proxyLimits struct {
	proxy   getter // static: only the proxy that the sessions go through, not its fleet
	backend string // static

	reached map[string]uint64 // how often clients had reached each limit of the process when the proxy was last asked; nil before
	met     error             // the first limit that was met in this step, or why the proxy could not be asked
	places  int               // the most connections to the backend that the proxy might have in this step
	cap     int               // of the backend
	ceiling int               // how many connections the server gets, from all proxies: fewer than cap if it says that it is full
}

// begin begins a step.
func (l *proxyLimits) begin(ctx context.Context) {
	if l != nil {
		l.look(ctx)
		l.met, l.places = nil, 0
	}
}

// look asks the proxy for its limits.
func (l *proxyLimits) look(ctx context.Context) {
	if l == nil {
		return
	}
	var now api.Stats
	if err := l.proxy.Get(ctx, api.StatsPath, nil, &now); err != nil {
		l.met = cmp.Or(l.met, err)
		return
	}
	before := l.reached
	l.reached = make(map[string]uint64)
	for _, limit := range now.Limits.Totals { // the calibration's own service has none, and its sessions no tenant
		if limit.Scope != "process" {
			continue
		}
		l.reached[limit.Limit] = limit.Count
		if before != nil && limit.Count > before[limit.Limit] {
			l.met = cmp.Or(l.met, fmt.Errorf("--through: what the server takes does not show, since clients reached the proxy's total-%s: raise it meanwhile", limit.Limit))
		}
	}
	if len(now.Shortages) > 0 {
		l.met = cmp.Or(l.met, fmt.Errorf("--through: what the server takes does not show, since the proxy lacks resources: %s", now.Shortages[0]))
	}
	for i := range now.Backends {
		if b := &now.Backends[i]; b.Name == l.backend {
			l.places, l.cap, l.ceiling = max(l.places, b.MostConnections()), b.Cap, b.Ceiling
		}
	}
}

// kept returns an error that says what kept so many streams from the server in this step; nil for nothing, or if ctx has ended.
func (l *proxyLimits) kept(ctx context.Context, streams int) error {
	switch {
	case l == nil || ctx.Err() != nil:
		return nil
	case l.met == nil && l.places < min(streams, l.ceiling):
		return fmt.Errorf("--through: what the server takes does not show, since the proxy may have only %d of its %d connections, and other proxies have the rest: drain them meanwhile, or calibrate the server directly", l.places, l.cap)
	}
	return l.met
}
