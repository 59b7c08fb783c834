// Command cmd runs a proxy among hostile servers, clients and operators (package chaos) and writes a report. `make chaos` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/chaos"
	"github.com/wsbouncer/wsbouncer/internal/proof/command"
)

func main() {
	if chaos.Besieger() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit statuses.
const (
	good  = 0
	found = 1 // there are findings, or the run failed
	usage = 2
)

func run(ctx context.Context, args []string, out, diagnostics io.Writer) int {
	o, list, err := parse(args, diagnostics)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return good
	case err != nil:
		fmt.Fprintln(diagnostics, "chaos:", err)
		return usage
	case list:
		chaos.Describe(out)
		return good
	}
	if err := o.Validate(); err != nil {
		fmt.Fprintln(diagnostics, "chaos:", err)
		return usage
	}
	o.Out = out
	err = chaos.Run(ctx, o)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(diagnostics, "chaos:", err)
		return found
	}
	return good
}

func parse(args []string, out io.Writer) (o chaos.Options, list bool, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the binary")
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long the proxy gets new sessions, as a `duration`")
	flags.IntVar(&o.Sessions, "sessions", 200, "`number` of well-behaved sessions at a time")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that makes the random choices repeatable (default: a random one, which the report shows)")
	only := flags.String("only", "", "comma-separated `names` of the scenarios to run (default: all)")
	flags.BoolVar(&o.Keep, "keep", false, "keep the logs and files of the proxies even without findings")
	flags.BoolVar(&list, "list", false, "list the scenarios and exit")
	if err := command.Parse(flags, args); err != nil {
		return o, false, err
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	return o, list, nil
}
