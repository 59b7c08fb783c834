//go:build linux

// Command compare measures wsbouncer and its rivals in one run: the same load,
// the same backends, in interleaved rounds, and prints ratios.
//
//	go run ./bench/compare
//	go run ./bench/compare -scenario cpu -rounds 1 -duration 2s -rivals wsbouncer,c-relay
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	scenarios string
	rivals    string
	workers   string
	base      string
	rounds    int
	duration  time.Duration
	sessions  int
	rate      float64
	size      int
	calm      float64
	wsbouncer string
	tools     string
	json      string
	markdown  string
}

func parseFlags() options {
	var o options
	flag.StringVar(&o.scenarios, "scenario", "cpu,memory,burst,latency", "scenarios to run, comma-separated; also: idle, waiting")
	flag.StringVar(&o.rivals, "rivals", "", "only these, comma-separated (default all of a scenario)")
	flag.StringVar(&o.workers, "workers", "1,2", "worker counts to run nginx and HAProxy with, comma-separated")
	flag.StringVar(&o.base, "base", "", "rival that ratios refer to (default wsbouncer; c-relay in the waiting scenario)")
	flag.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	flag.DurationVar(&o.duration, "duration", 8*time.Second, "steady load in each run")
	flag.IntVar(&o.sessions, "sessions", 0, "sessions, instead of the scenario's own number")
	flag.Float64Var(&o.rate, "rate", 0, "messages per second and session, instead of the scenario's own rate")
	flag.IntVar(&o.size, "size", 1024, "bytes in a message")
	flag.Float64Var(&o.calm, "calm", 0, "repeat a run, twice at most, that others disturbed by more than so many processors (0: take what comes)")
	flag.StringVar(&o.wsbouncer, "wsbouncer", "", "a wsbouncer binary to measure (default: build this checkout's)")
	flag.StringVar(&o.tools, "tools", "", "a wsbouncer binary for the backends and the load (default: the one that is measured)")
	flag.StringVar(&o.json, "json", "", "write every run's numbers to this file")
	flag.StringVar(&o.markdown, "markdown", "", "write the tables to this file as well")
	flag.Parse()
	return o
}

func main() {
	log.SetFlags(0)
	o := parseFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func compare(ctx context.Context, o options) error {
	if err := raiseDescriptorLimit(); err != nil {
		return err
	}
	var chosen []scenario
	for name := range strings.SplitSeq(o.scenarios, ",") {
		s, err := findScenario(name, o)
		if err != nil {
			return err
		}
		chosen = append(chosen, s)
	}
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tools, err := build(ctx, dir, o, chosen)
	if err != nil {
		return err
	}
	var outcomes []outcome
	var interrupted error
	for _, s := range chosen {
		rivals, err := selectRivals(s.rivals(tools, o), o.rivals)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
		result, err := runScenario(ctx, tools, s, rivals, o)
		outcomes = append(outcomes, result)
		if errors.Is(err, context.Canceled) {
			interrupted = errors.New("interrupted: this is what was measured until then")
			break
		}
		if err != nil {
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	return errors.Join(report(outcomes, o), interrupted)
}
