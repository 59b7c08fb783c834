//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// observation is what one run of one rival shows.
type observation struct {
	load   loadResult
	cpu    child.CPU     // of the proxy, while the load was steady
	before float64       // PSS once it was ready, in bytes
	open   float64       // PSS late in the load, with all sessions open
	peak   float64       // peak resident size
	filled time.Duration // from its start until it was ready (idle scenario)
	busy   float64       // share of a processor that it used (idle scenario)
	others float64       // processors that everything else kept busy meanwhile
}

// observe starts a rival, offers it a load, and watches its process.
func observe(ctx context.Context, tools toolbox, r rival, l load, backends []string, memory bool) (observation, error) {
	addresses, err := child.FreeAddresses(2)
	if err != nil {
		return observation{}, err
	}
	dir, err := os.MkdirTemp(tools.dir, r.name+"-")
	if err != nil {
		return observation{}, err
	}
	defer os.RemoveAll(dir)
	t := task{listen: addresses[0], admin: addresses[1], backends: backends, sessions: l.sessions, dir: dir}
	p, address, err := r.start(ctx, t)
	if err != nil {
		return observation{}, err
	}
	w := watch{memory: memory}
	if p != nil {
		defer p.Stop()
		w.pid = p.PID()
	}
	const settle = time.Second
	select {
	case <-ctx.Done():
		return observation{}, ctx.Err()
	case <-time.After(settle):
	}
	w.seen.before = w.read(child.ReadPSS)
	var late *time.Timer
	result, err := offer(ctx, tools.tools, address, l, func() {
		w.begin()
		late = time.AfterFunc(l.duration*3/4, func() {
			open := w.read(child.ReadPSS)
			w.mu.Lock()
			w.seen.open = open
			w.mu.Unlock()
		})
	}, w.end)
	if late != nil {
		late.Stop()
	}
	if p != nil && p.Failure() != nil {
		return observation{}, p.Failure()
	}
	if err == nil && late == nil {
		err = fmt.Errorf("the load never became steady: %w", result.trouble())
	}
	peak := w.read(child.ReadPeak)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.load, w.seen.peak = result, peak
	return w.seen, cmp.Or(err, w.failed)
}

// watch reads a proxy's use of the machine, and keeps the first error.
type watch struct {
	pid    int // 0 if there is no proxy
	memory bool

	startMachine child.Machine // as the steady part of the load begins
	startCPU     child.CPU

	mu     sync.Mutex // guards what follows: a timer reads memory
	seen   observation
	failed error
}

func (w *watch) begin() {
	var err error
	w.startMachine, err = child.ReadMachine()
	w.fail(err)
	w.startCPU = w.readCPU()
}

func (w *watch) end() {
	used := w.readCPU()
	now, err := child.ReadMachine()
	w.fail(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.cpu = used.Since(w.startCPU)
	w.seen.others = now.Others(w.startMachine)
}

func (w *watch) readCPU() child.CPU {
	if w.pid == 0 {
		return child.CPU{}
	}
	used, err := child.ReadCPU(w.pid)
	w.fail(err)
	return used
}

// read reads memory, where the scenario is about it: it holds the process up.
func (w *watch) read(source func(pid int) (float64, error)) float64 {
	if !w.memory || w.pid == 0 {
		return 0
	}
	bytes, err := source(w.pid)
	w.fail(err)
	return bytes
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = cmp.Or(w.failed, err)
}
