//go:build linux

// Package rivals sets up and starts the proxies that wsbouncer is measured against: the alternatives, and relays that only pass
// bytes on, as floors. Each folder holds a rival's configuration or source.
//
// [SetUp] finds them, and builds or installs what is missing if it can. It needs Linux.
package rivals

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
)

// Task is what a rival does in one run.
type Task struct {
	Listen   string       // address for clients
	Admin    string       // a second free address, for those that need one
	Backends []string     // addresses, host:port
	CA       string       // file with the backends' certificate; empty: no TLS
	Serves   *Certificate // for clients; nil: no TLS
	Sessions int          // most clients at once
	Dir      string       // temporary, for its configuration
}

// Certificate names the PEM files of a certificate: itself, its key, and both in one.
type Certificate struct{ File, Key, Both string }

// NewCertificate makes a certificate in a folder, with an ECDSA key (P-256), for 127.0.0.1.
func NewCertificate(folder string) (*Certificate, error) {
	c, err := stage.NewCertificate(folder, stage.Lifetime)
	if err != nil {
		return nil, err
	}
	public, err := os.ReadFile(c.File())
	private, failed := os.ReadFile(c.KeyFile())
	both := filepath.Join(folder, "both.pem")
	return &Certificate{c.File(), c.KeyFile(), both}, errors.Join(err, failed, os.WriteFile(both, slices.Concat(public, private), 0o600))
}

// Rival is a proxy to compare. A fresh process serves each run. Its fields are static after SetUp.
type Rival struct {
	Name    string
	Title   string // what it is, in a few words
	Version string
	Missing string // why it cannot run here
	NoTLS   string // why it cannot use TLS to backends
	Serves  bool   // it is set up for TLS towards clients: with version 1.3 and AES-128-GCM

	// Command returns its program and arguments; nil: there is no proxy.
	Command func(Task) ([]string, error)
	// Ready returns a condition for child.WaitFor: the rival serves clients. nil: it does as soon as it accepts connections.
	Ready func(Task) func(context.Context) error
}

// ErrSkipped is wrapped in the error of a rival that can run but cannot do this task.
var ErrSkipped = errors.New("skipped")

// Start starts the rival and waits until it serves. It returns the address for clients; the process is nil if there is no proxy. The
// caller stops the process.
func (r Rival) Start(ctx context.Context, t Task) (*child.Process, string, error) {
	if r.Command == nil {
		return nil, t.Backends[0], nil
	}
	if t.CA != "" && r.NoTLS != "" {
		return nil, "", fmt.Errorf("%w: %s", ErrSkipped, r.NoTLS)
	}
	if t.Serves != nil && !r.Serves {
		return nil, "", fmt.Errorf("%w: it is not set up for TLS towards clients", ErrSkipped)
	}
	argv, err := r.Command(t)
	if err != nil {
		return nil, "", err
	}
	p, err := child.Start(argv)
	if err != nil {
		return nil, "", err
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if r.Ready != nil {
		err = child.WaitFor(starting, p, r.Name, r.Ready(t))
	} else {
		err = p.Accepts(starting, t.Listen)
	}
	if err != nil {
		p.Stop()
		return nil, "", err
	}
	return p, t.Listen, nil
}

// Direct returns a rival without a proxy: clients connect to one backend.
func Direct() Rival { return Rival{Name: "direct", Title: "no proxy: straight to one backend"} }

// workers are the default numbers of processes or threads of the rivals that let one choose. On two processors, one worker costs
// less per round trip than two as long as it suffices, because a busier worker finds more sockets ready each time it wakes up.
var workers = map[string]int{"nginx": 1, "haproxy": 1, "envoy": 1, "caddy": 1}

// Workers returns the number of workers by rival: the defaults, changed by a list such as "nginx=2,envoy=2".
func Workers(list string) (map[string]int, error) {
	chosen := maps.Clone(workers)
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
			return nil, fmt.Errorf("-workers: invalid number of workers for %s, %q: use 1 to 1024", name, value)
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
