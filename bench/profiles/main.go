//go:build linux

// Command profiles measures how soon a connection serves its next client with session profiles that allow that. It prints the table in Markdown.
//
//	go -C bench run ./profiles
//	go -C bench run ./profiles -rounds 1
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// options are the command's flags.
type options struct {
	rounds    int
	wsbouncer string
}

// maxRounds limits the flag. With most profiles, a connection serves at most 500 sessions, and one must serve all sessions of a row.
const maxRounds = 100

func main() { kit.Main("profiles", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := kit.NewFlags("profiles", out)
	f.IntVar(&o.rounds, "rounds", 6, "interleaved rounds; the numbers of sessions measured are multiples of it")
	f.StringVar(&o.wsbouncer, "wsbouncer", "", "a wsbouncer binary to measure (default: build this checkout's)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := kit.Within("-rounds", o.rounds, 1, maxRounds); err != nil {
		return kit.Misuse(err)
	}
	p, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	defer p.remove()
	rows, err := measureIdle(ctx, p, o)
	if err != nil {
		return err
	}
	fmt.Fprint(out, idleTable(rows, o))
	return nil
}
