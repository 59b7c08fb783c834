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
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	changes  = 20   // backends that are added, one after another, each awaited by a client
	backends = 5000 // size of the large configuration
	sessions = 500  // whose round trips are measured
	rate     = 20   // messages per second and session, 1 KiB each
)

// options are the command's flags.
type options struct {
	rounds    int
	phase     time.Duration
	wsbouncer string
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	f := kit.NewFlags("reconfigure", out)
	f.IntVar(&o.rounds, "rounds", 6, "rounds, each with and without changes")
	f.DurationVar(&o.phase, "phase", 4*time.Second, "length of each part of a round")
	f.StringVar(&o.wsbouncer, "wsbouncer", "", "binary to use (default: build this checkout's)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, kit.Misuse(errors.Join(kit.Within("-rounds", o.rounds, 1, 1000), kit.Within("-phase", o.phase, time.Second, time.Hour)))
}

func main() { kit.Main("reconfigure", run) }

// run measures with each database. All children have ended when it returns.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	root, err := child.Enter(ctx)
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "reconfigure")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	binary, err := child.Build(ctx, root, o.wsbouncer, directory)
	if err != nil {
		return err
	}
	databases, clear, err := makeDatabases(ctx, directory)
	if err != nil {
		return err
	}
	defer clear()
	for _, d := range databases {
		fmt.Printf("\n## %s\n\n| what | median | least | most |\n| --- | --- | --- | --- |\n", d.kind)
		s, err := set(ctx, o, binary, directory, d)
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
