//go:build linux

// Command cmd proves that the proxy names what is wrong (package scenes): it plays a scene for each kind of trouble, and prints a table of how long
// the proxy took to name it and to take its name back. `make scenes` runs it.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/scenes"
)

func main() { kit.Main("scenes", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o := scenes.Options{Log: out}
	flags := kit.NewFlags("scenes", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the program")
	flags.ListVar(&o.Only, "only", "comma-separated `list` of the scenes to play (default: all)")
	flags.DurationVar(&o.Within, "within", 0, "how long the proxy may take to name a problem, and to take its name back (default 15s)")
	flags.DurationVar(&o.Watch, "watch", 0, "how long no other problem may be named after the right one was (default: until -within has passed since the trouble began)")
	flags.DurationVar(&o.Healthy, "healthy", 0, "how long nothing may be named before the trouble begins (default 5s)")
	flags.DurationVar(&o.Hold, "hold", 0, "how much longer the trouble lasts, so that you can look at the dashboard, whose address is printed")
	flags.IntVar(&o.Parallel, "parallel", 0, "how many scenes are played simultaneously (default 4)")
	flags.StringVar(&o.Directory, "directory", "", "`path` of a directory for the proxies' files, which stay (default: a temporary one, which stays after a failure)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return kit.Misuse(err)
	}
	report, err := scenes.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n", report)
	return report.Err()
}
