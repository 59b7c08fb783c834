// Command cmd proves that sessions outlive their servers (package failoverproof): it holds hundreds of sessions of one protocol after the
// other, kills, stalls and drains their servers all the time, cuts their clients' connections if asked to, and checks that each chunk of audio is
// in exactly one final result. It prints a report for each protocol, and fails with the traces of sessions that saw anything wrong. `make
// failover` and `make reconnect` run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/failoverproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

func main() { kit.Main("failover", run) }

// settings are the flags.
type settings struct {
	protocols string
	kinds     string
	together  bool
	proof     failoverproof.Options
}

func parse(args []string, out io.Writer) (*settings, error) {
	s := new(settings)
	flags := kit.NewFlags("failover", out)
	flags.StringVar(&s.protocols, "protocol", "", "comma-separated `names` of protocols, or all (default: those whose profile has the verdict full)")
	flags.IntVar(&s.proof.Sessions, "sessions", 300, "number of sessions at a time")
	flags.IntVar(&s.proof.Events, "events", 2000, "how many times something happens to a server, shared evenly by the protocols; 0 for never")
	flags.StringVar(&s.kinds, "kinds", "", "comma-separated `list` of what may happen: kill, kill-all, close, stall, slow, move (default: all)")
	flags.IntVar(&s.proof.Cuts, "cuts", 0, "how many times clients' connections break, so that they come back, shared evenly by the protocols; 0 for never")
	flags.BoolVar(&s.together, "together", false, "prove the protocols at the same time; they share the sessions evenly")
	flags.DurationVar(&s.proof.Duration, "duration", 10*time.Minute, "how long things happen in each protocol at most")
	flags.DurationVar(&s.proof.Every, "every", time.Second, "mean `time` between two events")
	flags.SeedVar(&s.proof.Seed)
	flags.IntVar(&s.proof.Servers, "servers", 4, "number of simulated servers")
	flags.Float64Var(&s.proof.Speed, "speed", 1, "how many times faster than real time clients speak, as a `factor`")
	flags.DurationVar(&s.proof.MinLength, "shortest", 5*time.Second, "shortest `duration` of a session's audio")
	flags.DurationVar(&s.proof.MaxLength, "longest", 30*time.Second, "longest `duration` of a session's audio")
	flags.Int64Var(&s.proof.Memory, "memory", 0, "the proxy's replay-memory in `bytes`; 0 for its default")
	flags.BoolVar(&s.proof.Pieces, "pieces", false, "let clients send each message in two pieces, with a pause between them")
	flags.BoolVar(&s.proof.Direct, "direct", false, "let clients speak with the servers directly; nothing may happen to servers then")
	flags.BoolVar(&s.proof.Verbose, "verbose", false, "print events, and the proxy's log")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch s.protocols {
	case "":
		s.protocols = strings.Join(full(), ",")
	case "all":
		s.protocols = strings.Join(failoverproof.Protocols(), ",")
	}
	for _, name := range kit.Words(s.kinds) {
		kind, err := failoverproof.KindNamed(name)
		if err != nil {
			return nil, fmt.Errorf("-kinds: %w", err)
		}
		s.proof.Kinds = append(s.proof.Kinds, kind)
	}
	return s, nil
}

// full returns the protocols whose sessions can be taken over without a trace.
func full() []string {
	var names []string
	for _, name := range failoverproof.Protocols() {
		if p, err := profile.Named(name); err == nil && p.Failover().Verdict == profile.Full {
			names = append(names, name)
		}
	}
	return names
}

// run proves all protocols, one after the other or together.
func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	protocols := kit.Words(s.protocols)
	var (
		mu                       sync.Mutex
		events, sessions, chunks int
		failed                   []error // all guarded by mu
		proofs                   sync.WaitGroup
	)
	prove := func(i int) {
		o := s.proof
		o.Protocol = protocols[i]
		o.Events, o.Cuts = kit.Share(o.Events, i, len(protocols)), kit.Share(o.Cuts, i, len(protocols))
		if s.together {
			o.Sessions = kit.Share(o.Sessions, i, len(protocols))
		}
		if o.Verbose {
			o.Log = out
		}
		report, err := failoverproof.Run(ctx, o)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", o.Protocol, err))
			return
		}
		fmt.Fprint(out, report.String())
		events += report.EventCount()
		sessions += report.Sessions
		chunks += report.Chunks
		failed = append(failed, report.Err())
	}
	for i := range protocols {
		proofs.Go(func() { prove(i) })
		if !s.together {
			proofs.Wait()
		}
	}
	proofs.Wait()
	fmt.Fprintf(out, "%d events, %d sessions and %d chunks in all, seed %d\n", events, sessions, chunks, s.proof.Seed)
	return errors.Join(failed...)
}
