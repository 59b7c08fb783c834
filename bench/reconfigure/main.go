//go:build linux

// Command reconfigure measures what a change of the configuration costs, with SQLite and with PostgreSQL (if it is installed):
//
//   - how long it takes from the start of a change that adds a backend until the first session runs there;
//   - how long a store takes to load and validate 5,000 backends, and to compare them with those before;
//   - how much more processor time the proxy needs for a round trip while ten changes a second arrive.
//
// Usage:
//
//	go -C bench run ./reconfigure
//	go -C bench run ./reconfigure -rounds 2 -phase 2s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// options are the command's flags.
type options struct {
	changes   int
	backends  int
	sessions  int
	rate      float64
	rounds    int
	phase     time.Duration
	wsbouncer string
}

func parseFlags() (options, error) {
	var o options
	flag.IntVar(&o.changes, "changes", 20, "backends that are added, one after another, each awaited by a client")
	flag.IntVar(&o.backends, "backends", 5000, "size of the large configuration")
	flag.IntVar(&o.sessions, "sessions", 500, "sessions whose round trips are measured")
	flag.Float64Var(&o.rate, "rate", 20, "messages per second and session, 1 KiB each")
	flag.IntVar(&o.rounds, "rounds", 6, "rounds, each with and without changes")
	flag.DurationVar(&o.phase, "phase", 4*time.Second, "length of each part of a round")
	flag.StringVar(&o.wsbouncer, "wsbouncer", "", "binary to use (default: build bin/wsbouncer)")
	flag.Parse()
	if o.changes < 1 || o.backends < 1 || o.sessions < 1 || o.rate <= 0 || o.rounds < 1 || o.phase < time.Second {
		return o, errors.New("all numbers must be above 0, and -phase at least 1s")
	}
	return o, nil
}

func main() { child.Main(parseFlags, run) }

// run measures with each database. All children have ended when it returns.
func run(ctx context.Context, o options) error {
	if _, err := child.Enter(ctx); err != nil {
		return err
	}
	binary, err := child.Build(ctx, o.wsbouncer)
	if err != nil {
		return err
	}
	databases, clear, err := makeDatabases(ctx)
	if err != nil {
		return err
	}
	defer clear()
	for _, d := range databases {
		fmt.Printf("\n## %s\n\n| what | median | least | most |\n| --- | --- | --- | --- |\n", d.kind)
		s, err := set(ctx, o, binary, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.kind, err)
		}
		err = s.measure(ctx)
		s.clear()
		if err != nil {
			return fmt.Errorf("%s: %w", d.kind, err)
		}
	}
	return nil
}

// measure takes all measurements.
func (s *stage) measure(ctx context.Context) error {
	for _, part := range []func(context.Context) error{s.force, s.relay, s.large} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
