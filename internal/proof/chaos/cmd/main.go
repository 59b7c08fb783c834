// Command cmd runs a proxy among hostile servers, clients and operators (package chaos) and writes a report. `make chaos` runs it.
package main

import (
	"context"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/chaos"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

func main() {
	if !chaos.Besieger() {
		kit.Main("chaos", run)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o := chaos.Options{Out: out}
	flags := kit.NewFlags("chaos", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the binary")
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long the proxy gets new sessions, as a `duration`")
	flags.IntVar(&o.Sessions, "sessions", 200, "`number` of well-behaved sessions at a time")
	flags.SeedVar(&o.Seed)
	flags.ListVar(&o.Only, "only", "comma-separated `names` of the scenarios to run (default: all)")
	flags.BoolVar(&o.Keep, "keep", false, "keep the logs and files of the proxies even without findings")
	list := flags.Bool("list", false, "list the scenarios and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		chaos.Describe(out)
		return nil
	}
	if err := o.Validate(); err != nil {
		return kit.Misuse(err)
	}
	return chaos.Run(ctx, o)
}
