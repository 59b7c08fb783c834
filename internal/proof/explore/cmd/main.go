// Command cmd explores the protocol by which proxies share places, and prints how many states it has, or simulates large fleets.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/explore"
	"github.com/wsbouncer/wsbouncer/internal/proof/simulate"
)

func main() {
	var o explore.Options
	flag.IntVar(&o.Proxies, "proxies", 2, "how many proxies")
	flag.IntVar(&o.Cap, "cap", 2, "places of the server")
	flag.IntVar(&o.Faults.Total, "faults", 2, "how many faults of all kinds, apart from losses and restarts")
	flag.IntVar(&o.Faults.Losses, "losses", 1, "how many requests or answers are lost")
	flag.IntVar(&o.Faults.Delays, "delays", 1, "how many reports arrive late")
	flag.IntVar(&o.Faults.Answers, "answers", 0, "how many answers arrive late; holders ignore them, so they multiply states for little")
	flag.IntVar(&o.Faults.Crashes, "crashes", 1, "how many proxies crash")
	flag.IntVar(&o.Faults.Restarts, "restarts", 1, "how many proxies start instead of one that crashed")
	flag.IntVar(&o.Faults.Cuts, "cuts", 1, "how many proxies are cut off from the database")
	flag.IntVar(&o.Faults.Timeouts, "timeouts", 1, "how many grant time-outs pass")
	flag.IntVar(&o.Faults.Forgets, "forgets", 1, "how many proxies an operator forgets")
	flag.IntVar(&o.Faults.Databases, "databases", 1, "how often the database restarts or fails over")
	flag.IntVar(&o.Faults.Lost, "lost", 1, "how many commits a failover can lose")
	flag.BoolVar(&o.Ordered, "ordered", false, "the IDs of proxies keep their order")
	flag.IntVar(&o.Live, "live", 1, "of how many states one is checked for recovery")
	flag.IntVar(&o.Most, "states", 0, "give up after that many states")
	flag.DurationVar(&o.For, "time", 0, "give up after so long")
	simulated := flag.Bool("simulate", false, "simulate large fleets instead")
	flag.IntVar(&o.Workers, "workers", runtime.GOMAXPROCS(0), "how many goroutines explore")
	only := flag.String("only", "", "the only kinds of faults, apart from losses, by commas: delays, answers, crashes, cuts, timeouts, forgets, databases; empty for all")
	flag.Parse()
	if err := restrict(&o.Faults, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	debug.SetGCPercent(200)
	if *simulated {
		simulations()
		return
	}
	o.Progress = os.Stderr
	r := explore.Explore(o)
	fmt.Println(r)
	if r.Wrong != "" {
		os.Exit(1)
	}
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

// simulations prints a table of fleets of several sizes.
func simulations() {
	fmt.Println("| proxies | servers | places each | seed | sessions | waited for a move | median | p99 | longest | heartbeats/s | reads/s | writes/s | unfair | above the cap |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	failed := false
	for _, o := range []simulate.Options{
		{Proxies: 10, Servers: 10, Cap: 100, Seed: 1, Load: 0.7, Warm: 1},
		{Proxies: 100, Servers: 10, Cap: 200, Seed: 2, Load: 0.6},
		{Proxies: 300, Servers: 4, Cap: 900, Seed: 3, Load: 0.7},
		{Proxies: 100, Servers: 50, Cap: 200, Seed: 4, Load: 0.6},
	} {
		o.Time, o.Session, o.Shift = 20*time.Second, 30*time.Second, 5*time.Minute
		r := simulate.Run(o)
		fmt.Printf("| %d | %d | %d | %d | %d | %d | %d ms | %d ms | %d ms | %.0f | %.0f | %.0f | %.1f %% | %d |\n", o.Proxies, o.Servers, o.Cap, o.Seed,
			r.Sessions, len(r.Waited), r.Percentile(0.5).Milliseconds(), r.Percentile(0.99).Milliseconds(), r.Percentile(1).Milliseconds(),
			r.Heartbeats, r.Reads, r.Writes, r.Unfair, r.Above)
		failed = failed || r.Above > 0
	}
	if failed {
		os.Exit(1)
	}
}
