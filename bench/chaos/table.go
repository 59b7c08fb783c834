//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// table is what is shown as it goes. It may be used from any goroutine.
type table struct {
	out   io.Writer
	begun time.Time
	mu    sync.Mutex
	rows  int // since the last heading; guarded by mu
}

// headEvery is how many rows follow a heading.
const headEvery = 20

var serverNames = [3]string{"first", "second", "third"}

// row shows the statistics in a line.
func (t *table) row(s sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows%headEvery == 0 {
		t.heading(s)
	}
	t.rows++
	var line strings.Builder
	fmt.Fprintf(&line, "%5.0fs %8d", s.at.Sub(t.begun).Seconds(), s.Sessions.Active)
	for _, b := range s.Backends {
		state := b.Circuit
		if b.Ramp < 1 && b.Usable {
			state = fmt.Sprintf("ramp %.1f", b.Ramp)
		}
		fmt.Fprintf(&line, " | %4d %5d %6d %5d %6d  %-9s", b.Dialing, b.Idle, b.Leased, b.Resetting, b.Retiring, state)
	}
	fmt.Fprintln(t.out, line.String())
}

func (t *table) heading(s sample) {
	fmt.Fprintf(t.out, "\n%6s %8s", "", "sessions")
	for i, b := range s.Backends {
		fmt.Fprintf(t.out, " | %-41s", fmt.Sprintf("%s server, cap %d", serverNames[i], b.Cap))
	}
	fmt.Fprintf(t.out, "\n%6s %8s", "time", "active")
	for range s.Backends {
		fmt.Fprintf(t.out, " | %4s %5s %6s %5s %6s  %-9s", "dial", "idle", "leased", "reset", "retire", "circuit")
	}
	fmt.Fprintln(t.out)
}

// say shows what happens.
func (t *table) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "%5.1fs --- %s\n", time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}
