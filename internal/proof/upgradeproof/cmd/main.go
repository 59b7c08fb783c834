//go:build linux

// Command cmd proves that upgrades of a running proxy cut nothing (package upgradeproof). `make upgrade-test` runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/upgradeproof"
)

func main() { kit.Main("upgrade-test", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o := upgradeproof.Options{Out: out}
	flags := kit.NewFlags("upgrade-test", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the binary")
	flags.StringVar(&o.Other, "other", "bin/wsbouncer", "`path` of another version of it")
	flags.IntVar(&o.Sessions, "sessions", 1000, "`number` of sessions that last from the beginning to the end")
	flags.IntVar(&o.Rate, "rate", 200, "`number` of new sessions a second")
	flags.IntVar(&o.Upgrades, "upgrades", 5, "`number` of upgrades in a row")
	flags.DurationVar(&o.Every, "every", 10*time.Second, "the time between two upgrades, as a `duration`")
	flags.IntVar(&o.Servers, "servers", 4, "`number` of servers")
	flags.IntVar(&o.Cap, "cap", 500, "`number` of places of each server")
	flags.DurationVar(&o.Pause, "pause", 50*time.Millisecond, "the longest that a client may take to get its session around an upgrade, at the 99th percentile, as a `duration`")
	flags.BoolVar(&o.Failures, "failures", true, "also have upgrades fail")
	flags.BoolVar(&o.Uncounted, "uncounted", false, "connections above a server's cap are no failure")
	scenes := flags.Int("scenes", 0, "instead: in that `number` of scenes, upgrade one of two proxies of a fleet while its database stops and a server is killed")
	var seed uint64 // of the times of scenes
	flags.SeedVar(&seed)
	keep := flags.Bool("keep", false, "keep the log and the files of the proxies even without findings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := kit.Misuse(o.Validate()); err != nil {
		return err
	}
	if o.Directory, err = os.MkdirTemp("", "wsbouncer-upgrade-"); err != nil {
		return err
	}
	if *scenes > 0 {
		fmt.Fprintf(out, "seed %d\n", seed)
		err = upgradeproof.RunOutages(ctx, upgradeproof.OutageOptions{
			Binary: o.Binary, Scenes: *scenes, Seed: seed, Sessions: 48, Servers: 3, Cap: 32, Settle: 10 * time.Second, Directory: o.Directory, Out: out,
		})
	} else {
		err = upgradeproof.Run(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("%w\nThe log is in %s", err, o.Directory)
	}
	if !*keep {
		_ = os.RemoveAll(o.Directory)
	}
	fmt.Fprintln(out, "Nothing was refused, reset, cut or lost.")
	return nil
}
