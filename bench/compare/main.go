//go:build linux

// Command compare measures wsbouncer and its rivals in one run: the same load, the same backends, in interleaved rounds. It
// prints ratios and writes a report with plots. See bench/README.md.
//
//	go -C bench run ./compare
//	go -C bench run ./compare -quick
//	go -C bench run ./compare -scenario cpu -sessions 500,3000 -size 1KiB -rounds 3 -only wsbouncer,nginx
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// options are the command's flags.
type options struct {
	scenarios string
	only      string
	sessions  string
	sizes     string
	workers   string
	rounds    int
	duration  time.Duration
	rate      float64
	quick     bool
	offline   bool
	check     bool
	calm      float64
	capacity  float64
	tls       bool
	wsbouncer string
	variants  []rivals.Variant
	out       string
	from      string
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	f := kit.NewFlags("compare", out)
	f.StringVar(&o.scenarios, "scenario", "", "scenarios to run, comma-separated (default all but start-tls, profiles, silent and tails): cpu, memory (the same runs), light, tls, latency, burst, burst-tls, everything, rate, start, start-tls, churn, profiles, silent, tails")
	f.StringVar(&o.only, "only", "", "only these rivals, comma-separated: wsbouncer, wsbouncer-one-shot, wsbouncer-no-uring, c-relay, nginx, haproxy, envoy, caddy, gorilla")
	f.StringVar(&o.sessions, "sessions", "", "numbers of sessions, comma-separated, instead of the scenarios' own")
	f.StringVar(&o.sizes, "size", "", "sizes of a message, comma-separated, such as 64B,1KiB, instead of the scenarios' own")
	f.Float64Var(&o.rate, "rate", 0, "messages per second and session, instead of the scenarios' own")
	f.IntVar(&o.rounds, "rounds", 0, "interleaved rounds (default 3; 2 or 1 in scenarios that take long)")
	f.DurationVar(&o.duration, "duration", 0, "steady load in each run (default 2s; 1s with -quick)")
	f.StringVar(&o.workers, "workers", "", "workers of rivals that differ from the default, such as nginx=2,haproxy=2,envoy=2,caddy=1")
	f.BoolVar(&o.quick, "quick", false, "fewer loads, one round, shorter: check that everything works")
	f.BoolVar(&o.offline, "offline", false, "install nothing")
	f.Float64Var(&o.calm, "calm", 0, "repeat a run, at most twice, while other processes use more than this many processors (0: never)")
	f.Float64Var(&o.capacity, "capacity", 0, "in the scenario tails, round trips per second that one processor carries (0: measure it)")
	f.BoolVar(&o.tls, "tls", false, "in the scenario tails, clients speak TLS")
	f.StringVar(&o.wsbouncer, "wsbouncer", "", "a wsbouncer binary to measure (default: build this checkout's)")
	f.Func("variant", "also compare another wsbouncer (may be repeated): `NAME=FLAGS`, such as 'direct=--io-uring off', or NAME=BINARY", func(text string) error {
		v, err := rivals.ParseVariant(text)
		o.variants = append(o.variants, v)
		return err
	})
	f.StringVar(&o.out, "out", "", "folder for benchmarks.json, benchmarks.md and img/ (default: docs/internals for the whole plan, with the numbers in README.md; .cache/bench/report for any other)")
	f.BoolVar(&o.check, "check", false, "measure nothing: check that README.md, the page and the plots are what docs/internals/benchmarks.json makes of them, and that it was measured at most 300 commits ago")
	f.StringVar(&o.from, "from", "", "measure nothing: make the report again from this JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	_, err := newPlan(o)
	return o, kit.Misuse(err)
}

func main() { kit.Main("compare", run) }

// run measures and reports, or only reports.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	root, err := child.Enter(ctx)
	if err != nil {
		return err
	}
	if o.check {
		return checkPublished(ctx, root, out)
	}
	if o.from != "" {
		report, err := results.Read(o.from)
		if err != nil {
			return err
		}
		return publish(report, o.folder())
	}
	p, err := newPlan(o)
	if err != nil {
		return err
	}
	st, err := newStage(ctx, root, p, o)
	if err != nil {
		return err
	}
	defer st.close()
	report := st.perform(ctx, p)
	if ctx.Err() != nil {
		return errors.Join(publish(report, cmp.Or(o.out, otherReports)), errors.New("interrupted: this is what was measured until then"))
	}
	folder, faults := o.folder(), report.Faults()
	if folder != docs || len(faults) == 0 {
		return publish(report, folder)
	}
	return errors.Join(publish(report, otherReports), fmt.Errorf("%s stays as it is, since not everything was measured: %s", docs, strings.Join(faults, "; ")))
}

// whole reports whether this is the plan that docs/internals/benchmarks.md reports.
func (o options) whole() bool {
	return !o.quick && o.scenarios == "" && o.only == "" && o.sessions == "" && o.sizes == "" && o.workers == "" && o.rounds == 0 && o.duration == 0 &&
		o.rate == 0 && o.from == "" && o.wsbouncer == "" && len(o.variants) == 0
}

// otherReports is the folder for reports of other plans than the whole one.
const otherReports = ".cache/bench/report"

// folder returns where the report goes.
func (o options) folder() string {
	switch {
	case o.out != "":
		return o.out
	case o.whole():
		return docs
	}
	return otherReports
}
