//go:build linux

// Command profiles measures what session profiles cost and gain: the proxy's processor time for audio that passes through it, and
// how soon a connection serves its next client. It prints the tables in Markdown.
//
//	go -C bench run ./profiles
//	go -C bench run ./profiles -only idle -rounds 1
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// options are the command's flags.
type options struct {
	only      []string
	rounds    int
	duration  time.Duration
	wsbouncer string
	json      string
}

// measurement is one of the tables.
type measurement struct {
	name string
	take func(ctx context.Context, p *programs, o options) (*table, error)
}

// measurements returns all of them, in their order.
func measurements() []measurement {
	return []measurement{{"cpu", measureCPU}, {"idle", measureIdle}}
}

func parse(args []string, out io.Writer) (options, error) {
	var names []string
	for _, m := range measurements() {
		names = append(names, m.name)
	}
	var o options
	f := kit.NewFlags("profiles", out)
	f.IntVar(&o.rounds, "rounds", 6, "interleaved rounds; the numbers of sessions measured are multiples of it")
	f.DurationVar(&o.duration, "duration", 3*time.Second, "time that is measured in each run of cpu")
	only := f.String("only", strings.Join(names, ","), "what to measure, comma-separated")
	f.StringVar(&o.wsbouncer, "wsbouncer", "", "a wsbouncer binary to measure (default: build this checkout's)")
	f.StringVar(&o.json, "json", "", "write every number to this file")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.only = strings.Split(*only, ",")
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return o, kit.Misuse(fmt.Errorf("-only: unknown table %q: use %s", name, strings.Join(names, ", ")))
		}
	}
	return o, kit.Misuse(errors.Join(kit.Within("-rounds", o.rounds, 1, maxRounds), kit.Within("-duration", o.duration, minDuration, maxDuration)))
}

// The limits of flags. With most profiles, a connection serves at most 500 sessions, and one must serve all sessions of a row.
const (
	maxRounds   = 100
	minDuration = 500 * time.Millisecond
	maxDuration = 10 * time.Minute
)

func main() { kit.Main("profiles", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	p, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer p.remove()
	var tables []*table
	for _, m := range measurements() {
		if !slices.Contains(o.only, m.name) {
			continue
		}
		began := time.Now()
		t, err := m.take(ctx, p, o)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		t.Name = m.name
		log.Printf("%s: %.0f s", m.name, time.Since(began).Seconds())
		tables = append(tables, t)
		fmt.Print(t.markdown())
	}
	return writeJSON(o.json, tables)
}
