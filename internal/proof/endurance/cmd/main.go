//go:build linux

// Command cmd proves that a proxy can run for days (package endurance). `make endurance` runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/endurance"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

func main() { kit.Main("endurance", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o := endurance.Options{Out: out}
	flags := kit.NewFlags("endurance", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the program")
	flags.StringVar(&o.Directory, "directory", ".cache/endurance", "`path` of a directory for samples, the report, logs and state; a run that was interrupted continues there")
	flags.DurationVar(&o.Duration, "duration", 24*time.Hour, "the time under load, in all runs together")
	flags.DurationVar(&o.Warmup, "warmup", 20*time.Minute, "how long a process, and the run, may grow before it is judged")
	flags.Float64Var(&o.Tolerance, "tolerance", 1, "`factor` of the limits, for short runs")
	flags.IntVar(&o.Rate, "rate", 200, "`number` of new sessions a second, which last up to three seconds")
	flags.IntVar(&o.Sessions, "sessions", 40, "`number` of sessions at a time that move to other servers when theirs are killed")
	flags.DurationVar(&o.Sample, "sample", 10*time.Second, "the time between two samples")
	flags.DurationVar(&o.Kill, "kill", 20*time.Second, "the time between two servers that are killed")
	flags.DurationVar(&o.Reload, "reload", time.Minute, "the time between two reloads")
	flags.DurationVar(&o.Rotate, "rotate", 10*time.Minute, "the time between two replacements of the clients' key and of the certificate")
	flags.DurationVar(&o.Restart, "restart", 30*time.Minute, "the time between two restarts of PostgreSQL")
	flags.DurationVar(&o.Upgrade, "upgrade", time.Hour, "the time between two upgrades of the running proxy")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return kit.Misuse(err)
	}
	if o.Directory, err = filepath.Abs(o.Directory); err != nil {
		return err
	}
	if err := endurance.Run(ctx, o); err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, o.Directory)
	}
	return nil
}
