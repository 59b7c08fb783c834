//go:build linux

package main

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// idleConnections is how many connections the idle scenario keeps in all.
const idleConnections = 9999

// settleIdle is how long after the pool is full it is measured: what dialing left in memory is gone by then.
const settleIdle = 12 * time.Second

// idlePools returns the rivals of the idle scenario: the proxy with many connections, and with one to each backend for comparison.
func idlePools(_ context.Context, st *stage, _ []rivals.Rival) ([]rivals.Rival, error) {
	pool := func(name string, each int) rivals.Rival {
		return rivals.WSBouncer(name, st.wsbouncer, "echo", func(rivals.Task) int { return each })
	}
	return []rivals.Rival{pool("few", 1), pool("wsbouncer", idleConnections/3)}, nil
}

// observeIdle starts a proxy and watches its process without any load.
func observeIdle(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, idleConnections, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	if err := kit.Wait(ctx, settleIdle); err != nil {
		return observation{}, err
	}
	w.begin()
	if err := kit.Wait(ctx, l.duration); err != nil {
		return observation{}, err
	}
	w.end()
	w.seen.open = w.read(child.ReadPSS)
	w.seen.busy = float64(w.seen.cpu.Total) / float64(l.duration)
	if w.failed == nil {
		w.failed = w.Failure()
	}
	return w.seen, w.failed
}
