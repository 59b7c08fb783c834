package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/api"
	"github.com/wsbouncer/wsbouncer/internal/config"
)

// transition is a command that gives backends another state.
type transition struct {
	verb, state    string
	short, long    string
	waits, example string
	// left returns in words what there is to wait for at a backend; empty if there is nothing.
	left func(*api.Backend) string
}

var (
	draining = transition{
		"drain", "draining", "Send no new clients to backends, and let their sessions end",
		`Send no new clients to backends, and let their sessions end. Idle connections stay open until
'wsbouncer backend enable' puts the backends back into service; 'wsbouncer backend disable' closes them.`,
		"until no session is left",
		"  wsbouncer backend drain gpu-2 --wait --timeout 10m --why \"new model\"\n  wsbouncer backend drain --selector zone=a",
		sessionsLeft,
	}
	disabling = transition{
		"disable", "disabled", "Take backends out of service",
		`Take backends out of service: they get no new clients, and the proxy closes their idle connections. Running
sessions go on until they end.`,
		"until no session is left",
		"  wsbouncer backend disable gpu-2 --wait",
		sessionsLeft,
	}
	enabling = transition{
		"enable", "enabled", "Put backends back into service",
		"Put drained or disabled backends back into service.",
		"until the warm connections are open",
		"  wsbouncer backend enable gpu-2 --wait --timeout 1m",
		connectionsMissing,
	}
)

func sessionsLeft(b *api.Backend) string {
	switch n := b.Leased + b.Resetting; n {
	case 0:
		return ""
	case 1:
		return "1 session left"
	default:
		return fmt.Sprintf("%d sessions left", n)
	}
}

func connectionsMissing(b *api.Backend) string {
	wanted := min(b.Warm, b.Ceiling-b.Leased-b.Resetting-b.Retiring)
	if b.Idle >= wanted && b.Condition().Word == api.Healthy {
		return ""
	}
	text := fmt.Sprintf("%d of %d warm connections", b.Idle, max(wanted, 0))
	if c := b.Condition(); c.Why != "" {
		text += " (" + c.Word + ": " + c.Why + ")"
	}
	return text
}

// waitFlags are the flags of commands that wait for the proxy to carry out a change.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (f *waitFlags) add(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait "+until+"; needs a running proxy")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "maximum time to wait; then the exit status is 1")
}

func (f *waitFlags) check(cmd *cobra.Command) error {
	switch {
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
				if waiting.wait && t.proxy == nil {
					return usageError(errors.New("--wait needs a running proxy: use --admin instead of --database, or both"))
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
				if err != nil || !waiting.wait || write.dryRun {
					return err
				}
				return (&waiter{
					proxy: t.proxy.API(), names: names, to: to, timeout: waiting.timeout, every: pollEvery, messages: cmd.ErrOrStderr(), version: version,
				}).run(cmd.Context())
			})
		},
	}
	waiting.add(cmd, to.waits)
	chosen.add(cmd)
	write.add(cmd)
	return cmd
}
