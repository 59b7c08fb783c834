//go:build linux

// Command cmd proves that clients come back to their sessions while proxies are upgraded, or one of a fleet is killed (package reconnectproof). `make
// reconnect-fleet` runs it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/reconnectproof"
)

func main() { kit.Main("reconnect-fleet", run) }

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o := reconnectproof.Options{Out: out}
	flags := kit.NewFlags("reconnect-fleet", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the binary")
	flags.IntVar(&o.Proxies, "proxies", 3, "`number` of proxies")
	flags.DurationVar(&o.Upgrade, "upgrade", 0, "the time between two upgrades, as a `duration`; 0 for none")
	flags.BoolVar(&o.Kill, "kill", false, "kill one of the proxies half-way")
	flags.BoolVar(&o.Redirect, "redirect", false, "send clients to the proxy of their session (reconnect-url); by default, they are forwarded")
	flags.StringVar(&o.HAProxy, "haproxy", "haproxy", "`path` of HAProxy, which is put in front of several proxies")
	flags.IntVar(&o.Sessions, "sessions", 60, "`number` of sessions at a time, shared evenly by three protocols")
	flags.IntVar(&o.Cuts, "cuts", 600, "how many times clients' connections break")
	flags.IntVar(&o.Events, "events", 30, "how many times something happens to a server")
	flags.DurationVar(&o.Every, "every", 6*time.Second, "mean `time` between two events of a protocol")
	flags.DurationVar(&o.Duration, "duration", 3*time.Minute, "how long things happen")
	flags.IntVar(&o.Servers, "servers", 4, "`number` of servers of each protocol")
	flags.DurationVar(&o.Patience, "patience", 30*time.Second, "how long clients wait for what must come, as a `duration`")
	flags.SeedVar(&o.Seed)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := kit.Misuse(o.Validate()); err != nil {
		return err
	}
	if err := os.Setenv("WSBOUNCER_ADMIN_TOKEN", "a-token-of-the-proof"); err != nil { // for the proxies, which need the same one
		return err
	}
	if o.Directory, err = os.MkdirTemp("", "wsbouncer-reconnect-"); err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d\n", o.Seed)
	if err := reconnectproof.Run(ctx, o); err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, o.Directory)
	}
	return os.RemoveAll(o.Directory)
}
