//go:build linux

// Command pools compares wsbouncer's pool with two simpler designs, in one run on one machine, and prints a table. See
// docs/pool.md for what the designs are and which of them fails how; the tests of this package show the failures.
//
//	go -C bench run ./pools
//	go -C bench run ./pools -goroutines 64 -rounds 1 -duration 2s
//
// An interrupt ends it early, with a table of what was measured by then.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// options are the command's flags.
type options struct {
	goroutines []int
	duration   time.Duration
	rounds     int
	rate       float64
	roundTrip  time.Duration
	check      time.Duration
	breakage   time.Duration
	calm       float64
}

func parseFlags() (options, error) {
	o := options{}
	goroutines := flag.String("goroutines", "1,8,64,512", "how many lease and return at once, comma-separated")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "time of each measurement; two for each pool, number and round")
	flag.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	flag.Float64Var(&o.rate, "rate", 10000, "leases per second, all goroutines together, while latency is measured")
	flag.DurationVar(&o.roundTrip, "round-trip", 5*time.Millisecond, "time that a dial and a ping take")
	flag.DurationVar(&o.check, "check", 5*time.Second, "time between two pings on a connection")
	flag.DurationVar(&o.breakage, "break", 100*time.Millisecond, "time between two connections that the server ends")
	flag.Float64Var(&o.calm, "calm", 0, "wait for a moment in which others use at most so many processors, and repeat what they disturb (0: take what comes)")
	flag.Parse()
	for _, text := range strings.Split(*goroutines, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-goroutines: %q is no number of goroutines", text)
		}
		o.goroutines = append(o.goroutines, n)
	}
	if o.rounds < 1 || o.rate <= 0 || min(o.duration, o.roundTrip, o.check, o.breakage) <= 0 {
		return o, fmt.Errorf("all numbers and times must be above 0")
	}
	return o, nil
}

func main() {
	child.Main(parseFlags, func(ctx context.Context, o options) error {
		all := make(outcomes)
		all.gather(ctx, o)
		all.print(os.Stdout, o)
		return nil
	})
}

// gather measures round by round, until ctx ends.
func (r outcomes) gather(ctx context.Context, o options) {
	for round := range o.rounds {
		for _, n := range o.goroutines {
			for i := range designs {
				if ctx.Err() != nil {
					return
				}
				d := designs[(i+round)%len(designs)] // each round begins with another one
				log.Printf("round %d of %d: %d goroutines, %s", round+1, o.rounds, n, d.name)
				key := series{n, d.name}
				r[key] = append(r[key], calmly(d, n, o))
			}
		}
	}
}
