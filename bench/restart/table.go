//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// headEvery is how many rows follow a heading.
const headEvery = 20

var serverNames = [3]string{"first", "second", "third"}

// row prints the latest statistics in a line.
func (s *stage) row() {
	if s.rows%headEvery == 0 {
		s.heading()
	}
	s.rows++
	var line strings.Builder
	fmt.Fprintf(&line, "%5.0fs %8d", s.at.Sub(s.begun).Seconds(), s.last.Sessions.Active)
	for _, b := range s.last.Backends {
		state := b.Circuit
		if b.Ramp < 1 && b.Usable {
			state = fmt.Sprintf("ramp %.1f", b.Ramp)
		}
		fmt.Fprintf(&line, " | %4d %5d %6d %5d %6d  %-9s", b.Dialing, b.Idle, b.Leased, b.Resetting, b.Retiring, state)
	}
	fmt.Println(line.String())
}

func (s *stage) heading() {
	fmt.Printf("\n%6s %8s", "", "sessions")
	for i, b := range s.last.Backends {
		fmt.Printf(" | %-41s", fmt.Sprintf("%s server, cap %d", serverNames[i], b.Cap))
	}
	fmt.Printf("\n%6s %8s", "time", "active")
	for range s.last.Backends {
		fmt.Printf(" | %4s %5s %6s %5s %6s  %-9s", "dial", "idle", "leased", "reset", "retire", "circuit")
	}
	fmt.Println()
}

// say prints what happens.
func (s *stage) say(format string, args ...any) {
	fmt.Printf("%5.1fs --- %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}
