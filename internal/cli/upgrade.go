package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newUpgradeCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var binary string
	timeout := takeover.DefaultTimeout
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Replace a running proxy by another version of the program, and cut nothing",
		Long: `Replace a running proxy by another version of the program, and cut nothing.

The running proxy starts the new program with its own arguments and environment, first
'check' and then 'serve'. The new process takes the listening sockets, reads the
configuration, opens connections as far as the servers have places, and says that it is
ready. Only then the old process stops accepting clients. Its sessions go on for as long as
they last (upgrade-drain-timeout); it keeps following the configuration, and answers
'session ls' and 'session kill' at an address of its own, which this command prints.

If anything fails before the new process is ready, the old one keeps serving as if nothing had
been, and the exit status is 1. Going back to an older version is an upgrade, too. The
command is available on Linux only.`,
		Example: `  # After a package has replaced /usr/bin/wsbouncer
  wsbouncer upgrade --why "0.2.1"

  # Another program
  wsbouncer upgrade --binary /opt/wsbouncer-0.2.0/wsbouncer --timeout 2m`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 || timeout > api.MaxUpgradeTime {
				return usageError(fmt.Errorf("--timeout: invalid duration %v: use more than 0, and at most %v", timeout, api.MaxUpgradeTime))
			}
			if binary != "" {
				var err error
				if binary, err = filepath.Abs(binary); err != nil {
					return err
				}
			}
			return from.use(func(proxy *client.Client) error {
				return upgrade(cmd, proxy, &api.UpgradeOrder{Binary: binary, TimeoutSeconds: timeout.Seconds(), Order: order.order()})
			})
		},
	}
	cmd.Flags().StringVar(&binary, "binary", "", "program to start, on the proxy's machine (default: the one that the proxy was started as, as it is on disk now)")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the new process may take until it is ready")
	order.add(cmd)
	from.add(cmd)
	return cmd
}

// upgradeSlack is how much longer than the upgrade itself the first answer may take.
const upgradeSlack = 10 * time.Second

// upgrade asks for an upgrade and prints each step.
func upgrade(cmd *cobra.Command, proxy *client.Client, order *api.UpgradeOrder) error {
	timeout := time.Duration(order.TimeoutSeconds*float64(time.Second)) + upgradeSlack
	steps, err := proxy.Open(cmd.Context(), client.Request{Method: http.MethodPost, Path: api.UpgradePath, Body: order, Timeout: timeout}, timeout)
	if err != nil {
		return err
	}
	defer steps.Close()
	out := cmd.OutOrStdout()
	for {
		line, err := steps.Line()
		if errors.Is(err, io.EOF) || errors.As(err, new(*client.UnreachableError)) && cmd.Context().Err() == nil {
			return errors.New("the running proxy ended before it said what came of the upgrade: 'wsbouncer status' tells which process serves")
		}
		if err != nil {
			return err
		}
		var step api.UpgradeStep
		if err := json.Unmarshal(line, &step); err != nil {
			return fmt.Errorf("the proxy's answer is not understood: %w", err)
		}
		switch {
		case step.Error == api.ShutsDown:
			return fmt.Errorf("not upgraded: %s", step.Error)
		case step.Error != "":
			return fmt.Errorf("not upgraded, and the running proxy keeps serving: %s", step.Error)
		case step.Done != nil:
			return printUpgraded(out, step.Done)
		}
		if _, err := fmt.Fprintln(out, step.Text); err != nil {
			return err
		}
	}
}

func printUpgraded(out io.Writer, done *api.Upgraded) error {
	text := fmt.Sprintf("Upgraded: process %d, version %s, serves", done.PID, done.Version)
	if done.Sessions > 0 {
		text += "; the old process drains " + figures.Plural(done.Sessions, "session")
		if len(done.Draining) > 0 {
			text += " (--admin " + strings.Join(done.Draining, " or ") + ")"
		}
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
