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
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// watch reads how much of the machine a proxy uses, and keeps the first error.
type watch struct {
	*child.Process // nil if there is no proxy
	address        string
	ca             string // file with the certificate that it presents to clients; empty without TLS
	admin          string // address of the admin API, for those that have one
	dir            string // temporary, of the proxy
	stop           func()

	startMachine child.Machine // when the steady part of the load starts
	startCPU     child.CPU

	mu     sync.Mutex // guards what follows: a timer reads memory
	seen   observation
	failed error
}

// startRival starts a rival, and lets it settle. The caller stops it.
func startRival(ctx context.Context, st *stage, r rivals.Rival, sessions int, b servers) (*watch, error) {
	addresses, err := child.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(st.dir, r.Name+"-")
	if err != nil {
		return nil, err
	}
	w := &watch{admin: addresses[1], dir: dir}
	if b.serves != nil {
		w.ca = b.serves.File
	}
	w.Process, w.address, err = r.Start(ctx, rivals.Task{
		Listen: addresses[0], Admin: addresses[1], Backends: b.addresses, CA: b.ca, Serves: b.serves, Sessions: sessions, Dir: dir,
	})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	w.stop = func() {
		if w.Process != nil {
			w.Process.Stop()
		}
		os.RemoveAll(dir)
	}
	if err := kit.Wait(ctx, st.settle); err != nil {
		w.stop()
		return nil, err
	}
	w.seen.before = w.read(child.ReadPSS)
	return w, nil
}

// observe starts a rival, puts a load on it, and watches its process. Failed sessions are an error; overload is not.
func observe(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	seen, err := observeBurst(ctx, st, r, l, b)
	if err == nil {
		err = seen.load.broken()
	}
	seen.overload = seen.load.overload(l)
	return seen, err
}

// observeBurst does the same, but failed sessions are a result.
func observeBurst(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, l.sessions+l.spare, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	err = w.offer(ctx, l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if mixed := w.seen.load.Mixed; err == nil && mixed > 0 {
		err = fmt.Errorf("%d messages of other sessions", mixed)
	}
	return w.seen, cmp.Or(err, w.failed)
}

// offer puts a load on the proxy and reads how much of the machine the proxy uses meanwhile.
func (w *watch) offer(ctx context.Context, l load) error {
	var late *time.Timer
	result, err := offer(ctx, w.address, w.ca, l, func() {
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
	if w.Process != nil && w.Failure() != nil {
		return w.Failure()
	}
	if err == nil && late == nil {
		err = fmt.Errorf("the load never became steady: %d of %d connected, errors %v", result.Connected, result.Connections, result.Errors)
	}
	peak := w.read(child.ReadPeak)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.load, w.seen.peak = result, peak
	return err
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
	if w.Process == nil {
		return child.CPU{}
	}
	used, err := child.ReadCPU(w.PID())
	w.fail(err)
	return used
}

// read reads memory.
func (w *watch) read(source func(pid int) (float64, error)) float64 {
	if w.Process == nil {
		return 0
	}
	bytes, err := source(w.PID())
	w.fail(err)
	return bytes
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = cmp.Or(w.failed, err)
}
