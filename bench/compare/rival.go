//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// task is what a rival has to do in one run.
type task struct {
	listen   string
	admin    string   // a second free address, for those that need one
	backends []string // addresses
	sessions int
	dir      string // temporary, for its configuration
}

// rival is a proxy to compare. A fresh process serves each run.
type rival struct {
	name    string
	missing string                                 // why it cannot run here
	command func(task) ([]string, error)           // its program and arguments; nil: no proxy at all
	ready   func(task) func(context.Context) error // nil: once it accepts
}

// start starts the rival and waits until it serves. It returns the address for
// the load; the process is nil if there is no proxy between.
func (r rival) start(ctx context.Context, t task) (*child.Process, string, error) {
	if r.command == nil {
		return nil, t.backends[0], nil
	}
	argv, err := r.command(t)
	if err != nil {
		return nil, "", err
	}
	p, err := child.Start(argv)
	if err != nil {
		return nil, "", err
	}
	ask := child.Accepts(t.listen)
	if r.ready != nil {
		ask = r.ready(t)
	}
	if err := child.WaitFor(ctx, p, r.name, 60*time.Second, ask); err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, t.listen, nil
}

// direct is the load without a proxy, to one backend.
func direct() rival { return rival{name: "direct"} }

// tcpRelay is one of the relays of ours: flags, then listener and backends.
func tcpRelay(name, binary string, flags ...string) rival {
	r := rival{name: name}
	if binary == "" {
		r.missing = "no C compiler"
	}
	r.command = func(t task) ([]string, error) {
		return slices.Concat([]string{binary}, flags, []string{t.listen}, t.backends), nil
	}
	return r
}

// proxies are the rivals that speak WebSocket, behind the C relay as the floor.
func proxies(tools toolbox, o options) []rival {
	rivals := []rival{wsbouncer(tools), tcpRelay("c-relay", tools.relay)}
	for n := range strings.SplitSeq(o.workers, ",") {
		rivals = append(rivals, nginx(tools, n))
	}
	for n := range strings.SplitSeq(o.workers, ",") {
		rivals = append(rivals, haproxy(tools, n))
	}
	return rivals
}

// waitingRelays are the Go relay's ways of waiting, behind the C relay.
func waitingRelays(tools toolbox, _ options) []rival {
	rivals := []rival{tcpRelay("c-relay", tools.relay)}
	for _, wait := range []string{"block", "yield", "poller", "poller-drain", "raw", "alert"} {
		for loops := 1; loops <= 2; loops++ {
			rivals = append(rivals, tcpRelay(fmt.Sprintf("%s-%d", wait, loops), tools.waiting,
				"-wait", wait, "-loops", strconv.Itoa(loops)))
		}
	}
	return append(rivals, tcpRelay("goroutines", tools.waiting, "-wait", "goroutines"))
}

// selectRivals keeps the rivals that were asked for by name or by family: nginx
// means nginx-1 and nginx-2. An empty list means all.
func selectRivals(all []rival, list string) ([]rival, error) {
	if list == "" {
		return all, nil
	}
	var kept []rival
	names := strings.Split(list, ",")
	for _, r := range all {
		family := strings.TrimRight(r.name, "-0123456789")
		if slices.Contains(names, r.name) || slices.Contains(names, family) {
			kept = append(kept, r)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("none of its rivals is in %q", list)
	}
	return kept, nil
}
