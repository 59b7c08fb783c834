// Command cmd explores the protocol by which proxies share places, and prints how many states it has, or simulates large fleets. It fails if something
// is wrong in a state, and also if the exploration was cut off before it had seen all states.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/explore"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/simulate"
)

// main leaves signals alone: an exploration has no context that they could end.
func main() {
	debug.SetGCPercent(200)
	os.Exit(kit.Run(context.Background(), "explore", os.Args[1:], os.Stdout, os.Stderr, run))
}

func run(_ context.Context, args []string, out io.Writer) error {
	o := explore.Options{Progress: os.Stderr}
	flags := kit.NewFlags("explore", out)
	flags.IntVar(&o.Proxies, "proxies", 2, "how many proxies")
	flags.IntVar(&o.Cap, "cap", 2, "places of the server")
	flags.IntVar(&o.Faults.Total, "faults", 2, "how many faults of all kinds, apart from losses and restarts")
	flags.IntVar(&o.Faults.Losses, "losses", 1, "how many requests or answers are lost")
	flags.IntVar(&o.Faults.Delays, "delays", 1, "how many reports arrive late")
	flags.IntVar(&o.Faults.Answers, "answers", 0, "how many answers arrive late; holders ignore them, so they multiply states for little")
	flags.IntVar(&o.Faults.Crashes, "crashes", 1, "how many proxies crash")
	flags.IntVar(&o.Faults.Restarts, "restarts", 1, "how many proxies start instead of one that crashed")
	flags.IntVar(&o.Faults.Cuts, "cuts", 1, "how many proxies are cut off from the database")
	flags.IntVar(&o.Faults.Timeouts, "timeouts", 1, "how many grant time-outs pass")
	flags.IntVar(&o.Faults.Forgets, "forgets", 1, "how many proxies an operator forgets")
	flags.IntVar(&o.Faults.Databases, "databases", 1, "how often the database restarts or fails over")
	flags.IntVar(&o.Faults.Lost, "lost", 1, "how many commits a failover can lose")
	flags.BoolVar(&o.Ordered, "ordered", false, "the IDs of proxies keep their order")
	flags.IntVar(&o.Live, "live", 1, "of how many states one is checked for recovery")
	flags.IntVar(&o.Most, "states", 0, "give up after that many states")
	flags.DurationVar(&o.For, "time", 0, "give up after so long")
	simulated := flags.Bool("simulate", false, "simulate large fleets instead")
	flags.IntVar(&o.Workers, "workers", runtime.GOMAXPROCS(0), "how many goroutines explore")
	only := flags.String("only", "", "the only kinds of faults, apart from losses, by commas: delays, answers, crashes, cuts, timeouts, forgets, databases; empty for all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := restrict(&o.Faults, *only); err != nil {
		return kit.Misuse(err)
	}
	if *simulated {
		return simulations(out)
	}
	r := explore.Explore(o)
	fmt.Fprintln(out, r)
	return judge(r)
}

// judge returns an error if something is wrong, or if not all states were seen.
func judge(r *explore.Result) error {
	switch {
	case r.Wrong != "":
		return errors.New("a state is wrong")
	case !r.Complete:
		return fmt.Errorf("the exploration gave up after %d states, so nothing is proven: allow it more with -time or -states", r.States)
	}
	return nil
}

// restrict leaves out all kinds of faults but some, which are given by their names.
func restrict(f *explore.Faults, only string) error {
	if only == "" {
		return nil
	}
	kinds := map[string]*int{
		"delays": &f.Delays, "answers": &f.Answers, "crashes": &f.Crashes, "cuts": &f.Cuts, "timeouts": &f.Timeouts, "forgets": &f.Forgets,
		"databases": &f.Databases,
	}
	kept := strings.Split(only, ",")
	for _, kind := range kept {
		if kinds[kind] == nil {
			return fmt.Errorf("-only %s: %q is no kind of fault: allowed are %s", only, kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		}
	}
	for kind, n := range kinds {
		if *n = max(*n, 1); !slices.Contains(kept, kind) {
			*n = 0
		}
	}
	if f.Crashes == 0 {
		f.Restarts = 0
	}
	if f.Databases == 0 {
		f.Lost = 0
	}
	return nil
}

// longestMove is how long a client may wait for a place that another proxy has idle.
const longestMove = 2 * time.Second

// simulations prints a table of fleets of several sizes.
func simulations(out io.Writer) error {
	fmt.Fprintln(out, "| proxies | servers | places each | seed | sessions | waited for a move | median | p99 | longest | heartbeats/s | reads/s | writes/s | unfair | above the cap |")
	fmt.Fprintln(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	var failed []error
	for _, o := range []simulate.Options{
		{Proxies: 10, Servers: 10, Cap: 100, Seed: 1, Load: 0.7, Warm: 1},
		{Proxies: 100, Servers: 10, Cap: 200, Seed: 2, Load: 0.6},
		{Proxies: 300, Servers: 4, Cap: 900, Seed: 3, Load: 0.7},
		{Proxies: 100, Servers: 50, Cap: 200, Seed: 4, Load: 0.6},
	} {
		o.Time, o.Session, o.Shift = 20*time.Second, 30*time.Second, 5*time.Minute
		r := simulate.Run(o)
		fmt.Fprintf(out, "| %d | %d | %d | %d | %d | %d | %d ms | %d ms | %d ms | %.0f | %.0f | %.0f | %.1f %% | %d |\n", o.Proxies, o.Servers, o.Cap, o.Seed,
			r.Sessions, len(r.Waited), r.Percentile(0.5).Milliseconds(), r.Percentile(0.99).Milliseconds(), r.Percentile(1).Milliseconds(),
			r.Heartbeats, r.Reads, r.Writes, r.Unfair, r.Above)
		failed = append(failed, judgeFleet(r))
	}
	return errors.Join(failed...)
}

// judgeFleet returns an error if a simulated fleet did what it must not do, or if no place had to move in it.
func judgeFleet(r *simulate.Result) error {
	switch {
	case r.Above > 0:
		return fmt.Errorf("there were more connections than places %d times", r.Above)
	case len(r.Waited) == 0:
		return fmt.Errorf("no client of %d sessions waited for a place to move, so nothing was measured", r.Sessions)
	case r.Percentile(1) > longestMove:
		return fmt.Errorf("a client waited %v for a place to move, and may wait %v", r.Percentile(1), longestMove)
	}
	return nil
}
