//go:build linux

package main

import (
	"context"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// idleConnections is how many connections the idle scenario keeps in all.
const idleConnections = 9999

// settleIdle is the time after which a pool that was just filled is measured:
// what dialing left behind is gone by then.
const settleIdle = 12 * time.Second

// idlePools are the rivals of the idle scenario: the proxy with one connection
// to each backend, which is what the other is compared with, and with many.
func idlePools(tools toolbox, _ options) []rival {
	pool := func(name string, each int) rival {
		return rival{
			name: name, command: func(t task) ([]string, error) { return serve(tools, t, each), nil },
			ready: func(t task) func(context.Context) error {
				return func(ctx context.Context) error { return warm(ctx, t, each) }
			},
		}
	}
	return []rival{pool("few", 1), pool("wsbouncer", idleConnections/3)}
}

// observeIdle starts a proxy, offers it no load at all, and watches its process.
func observeIdle(ctx context.Context, tools toolbox, r rival, l load, backends []string) (observation, error) {
	addresses, err := child.FreeAddresses(2)
	if err != nil {
		return observation{}, err
	}
	dir, err := os.MkdirTemp(tools.dir, r.name+"-")
	if err != nil {
		return observation{}, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	p, _, err := r.start(ctx, task{listen: addresses[0], admin: addresses[1], backends: backends, dir: dir})
	if err != nil {
		return observation{}, err
	}
	defer p.Stop()
	w := watch{memory: true, pid: p.PID()}
	w.seen.filled = time.Since(began)
	if err := pause(ctx, settleIdle); err != nil {
		return observation{}, err
	}
	w.begin()
	if err := pause(ctx, l.duration); err != nil {
		return observation{}, err
	}
	w.end()
	w.seen.open = w.read(child.ReadPSS)
	w.seen.peak = w.read(child.ReadPeak)
	w.seen.busy = float64(w.seen.cpu.Total) / float64(l.duration)
	if w.failed == nil {
		w.failed = p.Failure()
	}
	return w.seen, w.failed
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
