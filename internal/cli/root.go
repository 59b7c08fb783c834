package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// usage marks an error as one in how the command was called.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// usageError marks err as one in how the command was called, for exit status 2. A nil error stays nil.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return usage{err}
}

// exit is an error with an exit status of its own. Without an error nothing is said.
type exit struct {
	status int
	error
}

func (e exit) Unwrap() error { return e.error }

// invalidError marks err as an invalid value, for exit status 2: how the command was called is right otherwise, and its
// help says nothing of it. A nil error stays nil.
func invalidError(err error) error {
	if err == nil {
		return nil
	}
	return exit{2, err}
}

// Main runs the command line and returns the exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	own := exit{status: 1}
	if errors.As(err, &own) && own.error == nil {
		return own.status
	}
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusBadRequest { // only the proxy judges some values
		own.status = 2
	}
	fmt.Fprintf(stderr, "Error: %v\n", err)
	if u := (usage{}); errors.As(err, &u) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", command.CommandPath())
		return 2
	}
	return own.status
}

// untilSignal returns a context that ends with SIGINT or SIGTERM, or when stop is called. By then the default action is back, so
// that a second signal ends the process at once. (The context of [signal.NotifyContext] ends before that.)
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		cancel()
	}()
	return ctx, cancel
}

// Command returns the command with all its subcommands, for programs that describe them (deploy/generate).
func Command() *cobra.Command { return newRootCommand() }

func newRootCommand() *cobra.Command {
	root := parent(&cobra.Command{
		Use:   "wsbouncer",
		Short: "A pooling WebSocket proxy for streaming inference",
		Long: `wsbouncer is a pooling WebSocket proxy for streaming inference: what PgBouncer is to
PostgreSQL, wsbouncer is to WebSocket inference servers.

It keeps connections to your inference servers open, leases one to each client for
its session, and relays frames both ways.`,
		Example: `  # Try it: three simulated servers, the proxy, and clients that stream speech
  wsbouncer demo

  # Serve two inference servers, 32 connections each
  wsbouncer serve --listen 127.0.0.1:8080 --backend ws://10.0.0.1:2700 --backend ws://10.0.0.2:2700 --connections 32`,
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRun: func(cmd *cobra.Command, _ []string) { warnOfDeprecated(cmd) }, // a command with one of its own must call it
	})
	root.Version = buildVersion() // has the library answer --version
	root.SetVersionTemplate(versionLine())
	root.Flags().Bool("version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 { // flags of a command that does not exist
			return noArguments(cmd, args)
		}
		return usageError(flagError(cmd.Flags(), err))
	})
	addGrouped(root, "Run", newInitCommand(), newServeCommand(), newCheckCommand(), newDemoCommand(), newMigrateCommand(), newUpgradeCommand())
	addGrouped(root, "Configure", newServiceCommand(), newBackendCommand(), newProfileCommand(), newTenantCommand(), newKeyCommand(), newConfigCommand(), newSettingsCommand())
	addGrouped(root, "Operate", newStatusCommand(), newTopCommand(), newProblemsCommand(), newSessionCommand(), newProxyCommand(), newUsageCommand(), newLogCommand(), newAuditCommand(), newReloadCommand())
	addGrouped(root, "Measure", newCalibrateCommand(), newBenchCommand(), newSimCommand())
	root.AddCommand(newVersionCommand())
	root.SetHelpFunc(showHelp)
	addLibraryCommands(root)
	return root
}

// parent returns a command that only groups others: by itself, it shows its help.
func parent(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = noArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// addLibraryCommands adds the library's commands for completion scripts, in the form of the others, and for help, which refuses what there is no
// help for.
func addLibraryCommands(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Example = "  # For the current bash\n  source <(wsbouncer completion bash)"
			for _, shell := range parent(cmd).Commands() {
				shell.Args = noArguments
			}
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil {
					return usageError(err)
				}
				return noArguments(about, rest)
			}
		}
	}
}

// noArguments refuses positional arguments, and names a subcommand that may have been meant.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		var known []string
		command := make(map[string]string) // by its names
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				for _, name := range append([]string{sub.Name()}, sub.Aliases...) {
					known, command[name] = append(known, name), sub.Name()
				}
			}
		}
		text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		near := slices.CompactFunc(spelling.Near(args[0], known), func(a, b string) bool { return command[a] == command[b] })
		for i := range near {
			near[i] = strconv.Quote(near[i])
		}
		if len(near) > 0 {
			text += ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError(errors.New(text))
	}
	return usageError(fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args[0]))
}
