package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// transition is a command that gives backends another state.
type transition struct {
	verb, state    string
	short, long    string
	waits, example string
	moves          bool // whether --move can have the sessions moved
	// left returns in words what there is to wait for at a backend; empty if there is nothing.
	left func(*api.Backend) string
}

var (
	draining = transition{
		"drain", "draining", "Send no new clients to backends, and let their sessions end",
		`Send no new clients to backends, and let their sessions end. Idle connections stay open until
'wsbouncer backend enable' puts the backends back into service; 'wsbouncer backend disable' closes them.

With --move, sessions of services with failover: replay move to other backends: each at its next answered point, when
the backend has answered all that its client has said, and after --timeout (30s) by replay. No more move at a time than
there are places elsewhere. The command says for each session where it went, or why not, and its exit status is 1 if one
could not be moved; such a session stays where it is.`,
		"until no session is left",
		"  wsbouncer backend drain gpu-2 --wait --timeout 10m --why \"new model\"\n  wsbouncer backend drain gpu-2 --move\n  wsbouncer backend drain --selector zone=a",
		true,
		sessionsLeft,
	}
	disabling = transition{
		"disable", "disabled", "Take backends out of service",
		`Take backends out of service: they get no new clients, and the proxy closes their idle connections. Running
sessions go on until they end.`,
		"until no session is left",
		"  wsbouncer backend disable gpu-2 --wait",
		false,
		sessionsLeft,
	}
	enabling = transition{
		"enable", "enabled", "Put backends back into service",
		"Put drained or disabled backends back into service.",
		"until the warm connections are open",
		"  wsbouncer backend enable gpu-2 --wait --timeout 1m",
		false,
		connectionsMissing,
	}
)

func sessionsLeft(b *api.Backend) string {
	n := b.Leased + b.Resetting
	if n == 0 {
		return ""
	}
	return figures.Plural(n, "session") + " left"
}

func connectionsMissing(b *api.Backend) string {
	wanted := min(b.Warm, b.MostConnections()-b.Leased-b.Resetting-b.Retiring)
	untried := b.Totals.Dialed == 0 && b.Totals.DialFailed == 0 && b.Dialing == 0 // nothing is known of it, as before the first client
	if b.Idle >= wanted && (b.Health.Condition().Word == api.Healthy || wanted <= 0 && untried) {
		return ""
	}
	text := fmt.Sprintf("%d of %d warm connections", b.Idle, max(wanted, 0))
	if c := b.Health.Condition(); c.Why != "" {
		text += " (" + c.Word + ": " + c.Why + ")"
	}
	return text
}

// waitFlags are the flags of commands that wait for the proxy to carry out a change.
type waitFlags struct {
	wait    bool
	move    bool // have the sessions moved
	moves   bool // static: there is a flag for that
	timeout time.Duration
}

func (f *waitFlags) add(cmd *cobra.Command, to *transition) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait "+to.waits+"; needs a running proxy")
	help := "maximum time to wait; then the exit status is 1"
	if f.moves = to.moves; f.moves {
		cmd.Flags().BoolVar(&f.move, "move", false, "move the sessions to other backends; needs a running proxy")
		help += "; with --move, time to wait for answered points, after which sessions move by replay (30s if not given)"
	}
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, help)
}

func (f *waitFlags) check(cmd *cobra.Command) error {
	if f.move && !cmd.Flags().Changed("timeout") {
		f.timeout = api.MoveTime
	}
	switch {
	case f.move && f.wait:
		return usageError(errors.New("use either --wait or --move: --move waits until the sessions are moved"))
	case f.move:
		return checkMoveTime(f.timeout)
	case cmd.Flags().Changed("timeout") && !f.wait && f.moves:
		return usageError(errors.New("--timeout works only with --wait or --move"))
	case cmd.Flags().Changed("timeout") && !f.wait:
		return usageError(errors.New("--timeout works only with --wait"))
	case f.timeout <= 0:
		return usageError(fmt.Errorf("--timeout: invalid duration \"%v\": use a duration above 0, such as 10m", f.timeout))
	}
	return nil
}

func newBackendStateCommand(to transition) *cobra.Command {
	var write writeFlags
	var waiting waitFlags
	var chosen selection
	cmd := &cobra.Command{
		Use:               to.verb + " NAME...",
		Short:             to.short,
		Long:              to.long,
		Example:           to.example,
		ValidArgsFunction: completeNames(config.KindBackend, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (len(chosen.labels) == 0) {
				return usageError(fmt.Errorf("%s takes either the names of backends or --selector", cmd.CommandPath()))
			}
			if err := waiting.check(cmd); err != nil {
				return err
			}
			return write.use(cmd, false, func(t *target) error {
				for flag, used := range map[string]bool{"--wait": waiting.wait, "--move": waiting.move} {
					if used && t.proxy == nil {
						return usageError(errors.New(flag + " needs a running proxy: use --admin instead of --database, or both"))
					}
				}
				names := args
				version, err := write.write(cmd, t, func(now *config.Content) (change config.Change, err error) {
					if now != nil && len(args) == 0 {
						if names, err = chosen.of(now); err == nil && len(names) == 0 {
							err = errors.New("no backend has these labels")
						}
					} else if now != nil {
						err = known(now, config.KindBackend, args...)
					}
					for _, name := range names {
						change.Mutations = append(change.Mutations, config.Mutation{
							Verb: config.Set, Kind: config.KindBackend, Name: name, Values: config.Values{"state": to.state},
						})
					}
					return change, err
				})
				if err != nil || !waiting.wait && !waiting.move || write.dryRun {
					return err
				}
				w := &waiter{
					proxy: t.proxy.API(), names: names, to: to, timeout: waiting.timeout, every: pollEvery, messages: cmd.ErrOrStderr(), version: version,
				}
				if waiting.move {
					out := cmd.OutOrStdout()
					if write.output.forPrograms() { // which read the change there
						out = cmd.ErrOrStderr()
					}
					return moveAll(cmd, w, t.proxy.API(), orderFlags{who: write.who, why: write.why}, waiting.timeout, out)
				}
				return w.run(cmd.Context())
			})
		},
	}
	waiting.add(cmd, &to)
	chosen.add(cmd)
	write.add(cmd)
	write.addLocal(cmd)
	return cmd
}
