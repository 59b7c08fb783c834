//go:build linux

// Command cmd proves that upgrades of a running proxy cut nothing (package upgradeproof). `make upgrade-test` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/upgradeproof"
)

func main() { os.Exit(run()) }

func run() int {
	o := upgradeproof.Options{Out: os.Stdout}
	flag.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the binary")
	flag.StringVar(&o.Other, "other", "bin/wsbouncer", "`path` of another version of it")
	flag.IntVar(&o.Sessions, "sessions", 1000, "`number` of sessions that last from the beginning to the end")
	flag.IntVar(&o.Rate, "rate", 200, "`number` of new sessions a second")
	flag.IntVar(&o.Upgrades, "upgrades", 5, "`number` of upgrades in a row")
	flag.DurationVar(&o.Every, "every", 10*time.Second, "the time between two upgrades, as a `duration`")
	flag.IntVar(&o.Servers, "servers", 4, "`number` of servers")
	flag.IntVar(&o.Cap, "cap", 500, "`number` of places of each server")
	flag.DurationVar(&o.Pause, "pause", 50*time.Millisecond, "the longest that a client may take to get its session around an upgrade, at the 99th percentile, as a `duration`")
	flag.BoolVar(&o.Failures, "failures", true, "also have upgrades fail")
	flag.BoolVar(&o.Uncounted, "uncounted", false, "connections above a server's cap are no failure")
	scenes := flag.Int("scenes", 0, "instead: in so many scenes, upgrade one of two proxies of a fleet while its database stops and a server is killed; `number`")
	seed := flag.Uint64("seed", 0, "`number` that draws the times of scenes again (default: a random one)")
	keep := flag.Bool("keep", false, "keep the log and the files of the proxies even without findings")
	flag.Parse()
	if flag.NArg() > 0 || o.Rate < 1 || o.Servers < 1 || o.Cap < 10 || o.Sessions < 0 || o.Upgrades < 1 {
		fmt.Fprintln(os.Stderr, "upgrade-test: use flags only; -rate, -servers and -upgrades need at least 1, -cap 10")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.Directory, err = os.MkdirTemp("", "wsbouncer-upgrade-"); err == nil {
		if *scenes > 0 {
			err = outages(ctx, &o, *scenes, *seed)
		} else {
			err = upgradeproof.Run(ctx, o)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "upgrade-test: %v\nThe log is in %s\n", err, o.Directory)
		return 1
	}
	if !*keep {
		_ = os.RemoveAll(o.Directory)
	}
	fmt.Println("Nothing was refused, reset, cut or lost.")
	return 0
}

// outages plays scenes in which everything happens at once.
func outages(ctx context.Context, o *upgradeproof.Options, scenes int, seed uint64) error {
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	fmt.Printf("seed %d\n", seed)
	return upgradeproof.RunOutages(ctx, upgradeproof.OutageOptions{
		Binary: o.Binary, Scenes: scenes, Seed: seed, Sessions: 48, Servers: 3, Cap: 32, Settle: 10 * time.Second, Directory: o.Directory, Out: os.Stdout,
	})
}
