//go:build linux

// Package rivals sets up and starts the proxies that wsbouncer is measured against: what one would use instead, and relays
// that do nothing but pass bytes on, as floors. Each folder holds what a rival needs: its configuration, or its source.
//
// [SetUp] finds them, and builds or installs what is missing, where it can. It needs Linux.
package rivals

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// Task is what a rival has to do in one run.
type Task struct {
	Listen   string   // address for clients
	Admin    string   // a second free address, for those that need one
	Backends []string // addresses, host:port
	CA       string   // file with the certificate that backends over TLS are known by; none: no TLS
	Sessions int      // most clients at once
	Dir      string   // temporary, for its configuration
}

// Rival is a proxy to compare. A fresh process serves each run. Its fields are static after SetUp.
type Rival struct {
	Name    string
	Title   string // what it is, in a few words
	Version string
	Missing string // why it cannot run here
	NoTLS   string // why it cannot have backends over TLS

	// Command returns its program and arguments; nil: there is no proxy at all.
	Command func(Task) ([]string, error)
	// Ready returns a function that tells why it does not serve yet; nil: it serves once it accepts.
	Ready func(Task) func(context.Context) error
}

// ErrSkipped is wrapped in the errors of a rival that is able to run, but not to do this task.
var ErrSkipped = errors.New("skipped")

// Start starts the rival and waits until it serves. It returns the address for clients; the process is nil if there is no proxy
// between. The caller stops the process.
func (r Rival) Start(ctx context.Context, t Task) (*child.Process, string, error) {
	if r.Command == nil {
		return nil, t.Backends[0], nil
	}
	if t.CA != "" && r.NoTLS != "" {
		return nil, "", fmt.Errorf("%w: %s", ErrSkipped, r.NoTLS)
	}
	argv, err := r.Command(t)
	if err != nil {
		return nil, "", err
	}
	p, err := child.Start(argv)
	if err != nil {
		return nil, "", err
	}
	ask := child.Accepts(t.Listen)
	if r.Ready != nil {
		ask = r.Ready(t)
	}
	if err := child.WaitFor(ctx, p, r.Name, 60*time.Second, ask); err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, t.Listen, nil
}

// Direct is the load without a proxy, to one backend.
func Direct() Rival { return Rival{Name: "direct", Title: "no proxy: straight to one backend"} }

// workers are how many processes or threads those rivals have for which that can be chosen, and which of 1 and 2 cost less on
// two processors: with one worker per round trip while it suffices, since a busier one finds more sockets ready each time it
// wakes up. Python is the exception: a process uses one processor, and one of them is soon too little. They are written for
// flags to change.
var workers = map[string]int{"nginx": 1, "haproxy": 1, "envoy": 1, "caddy": 1, "python": runtime.NumCPU()}

// Workers says who has how many workers: the defaults, changed by a list such as "nginx=2,envoy=2".
func Workers(list string) (map[string]int, error) {
	chosen := map[string]int{}
	for name, n := range workers {
		chosen[name] = n
	}
	for setting := range strings.SplitSeq(list, ",") {
		if setting == "" {
			continue
		}
		var n int
		name, value, _ := strings.Cut(setting, "=")
		if _, known := workers[name]; !known {
			return nil, fmt.Errorf("-workers: %q has no number of workers to choose", name)
		}
		if _, err := fmt.Sscan(value, &n); err != nil || n < 1 || n > 1024 {
			return nil, fmt.Errorf("-workers: %s has %q workers; allowed are 1 to 1024", name, value)
		}
		chosen[name] = n
	}
	return chosen, nil
}

// Select keeps the rivals that were asked for by name, comma-separated. An empty list means all.
func Select(all []Rival, list string) ([]Rival, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	var kept []Rival
	for _, r := range all {
		if slices.Contains(names, r.Name) {
			kept = append(kept, r)
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("none of the rivals here is in %q", list)
	}
	return kept, nil
}
