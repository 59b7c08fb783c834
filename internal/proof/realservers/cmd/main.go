//go:build linux

// Command cmd tries the built-in profiles on servers that people run (package realservers), and writes the matrix. `make test-servers` runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/proof/realservers"
)

func main() { kit.Main("test-servers", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	o := realservers.Options{Log: kit.NewJournal(out)}
	flags := kit.NewFlags("test-servers", out)
	flags.StringVar(&o.Binary, "wsbouncer", "bin/wsbouncer", "`path` of the program")
	flags.StringVar(&o.Servers, "servers", "conformance/servers", "`path` of the directory with the servers' descriptions")
	flags.StringVar(&o.Sources, "sources", os.Getenv("SERVERS_SRC"), "`path` of a directory with checkouts of repositories (default: SERVERS_SRC; without it, they are cloned)")
	flags.StringVar(&o.Cache, "cache", ".cache/servers", "`path` of the directory where servers are installed and logs are written")
	flags.IntVar(&o.Sessions, "sessions", 200, "number of sessions in the trial of reuse")
	flags.ListVar(&o.Only, "only", "comma-separated `list` of the servers to try (default: all)")
	flags.ListVar(&o.Steps, "steps", "comma-separated `list` of verify, client, reuse, failover and warm: take only these steps, and keep the others' results (default: all)")
	results := flags.String("results", "conformance/servers/results.json", "`path` of the file with all results")
	page := flags.String("page", "docs/reference/tested-servers.md", "`path` of the page with the matrix")
	write := flags.Bool("write", false, "write the results and the page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := kit.Within("sessions", o.Sessions, 1, 100_000); err != nil {
		return kit.Misuse(err)
	}
	if err := os.MkdirAll(o.Cache, 0o700); err != nil {
		return err
	}
	before, err := realservers.ReadResults(*results)
	if err != nil {
		return err
	}
	o.Before = before
	found, err := realservers.Run(ctx, o)
	if err != nil {
		return err
	}
	all := realservers.Merge(before, found)
	for _, b := range before {
		for _, a := range all {
			if text := realservers.Changed(b, a); a.Name == b.Name && text != "" {
				fmt.Fprintf(out, "%s has changed:\n%s\n", a.Name, text)
			}
		}
	}
	fmt.Fprint(out, "\n", realservers.Page(found))
	if *write {
		text, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			err = errors.Join(os.WriteFile(*results, append(text, '\n'), 0o644), os.WriteFile(*page, []byte(realservers.Page(all)), 0o644))
		}
		if err != nil {
			return err
		}
	}
	return realservers.Err(found)
}
