//go:build linux

// Command cmd proves that a fleet of proxies keeps each server's cap (package fleetproof): it runs three proxies, PostgreSQL and four servers,
// and for ten minutes kills, stops, cuts off and replaces them under 2,000 clients. It prints a table of what that cost, and fails if a server
// had more connections than its cap, a place was unused for too long, or a session on a living proxy noticed anything. `make fleet` runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/fleetproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

func main() { kit.Main("fleet", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o := fleetproof.Options{Log: out}
	flags := kit.NewFlags("fleet", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the program")
	flags.StringVar(&o.Upgraded, "upgraded", "", "`path` of the program that upgrades take (default: the same)")
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long events begin")
	flags.SeedVar(&o.Seed)
	flags.DurationVar(&o.Stop, "stop", 0, "how long proxies are stopped in the event stop (default: 7s to 16s)")
	flags.DurationVar(&o.GrantTimeout, "grant-timeout", 0, "the proxies' grant-timeout (default: never); stops that are longer may exceed caps, by what the proxy used")
	flags.IntVar(&o.Sessions, "sessions", 2000, "number of clients at a time")
	flags.IntVar(&o.Proxies, "proxies", 3, "number of proxies")
	caps := flags.String("caps", "16,32,64,100", "comma-separated `list` of the servers' caps")
	flags.ListVar(&o.Kinds, "events", "comma-separated `list` of the events that may happen (default: all)")
	arguments := flags.String("arguments", "", "further `arguments` of the proxies, with spaces between them, e.g. '--fleet off', which must fail")
	flags.DurationVar(&o.Slack, "slack", 3*time.Second, "how much longer than stated things may take, since the machine is busy")
	flags.StringVar(&o.Directory, "directory", "", "`path` of a directory for the proxies' files, which stay (default: a temporary one, which stays after a failure)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, word := range kit.Words(*caps) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return kit.Misuse(fmt.Errorf("-caps: invalid number %q: use a list such as 16,32", word))
		}
		o.Caps = append(o.Caps, n)
	}
	o.Arguments = strings.Fields(*arguments)
	if err := o.Validate(); err != nil {
		return kit.Misuse(err)
	}
	fmt.Fprintf(out, "seed %d\n", o.Seed)
	report, err := fleetproof.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n", report)
	return report.Err()
}
