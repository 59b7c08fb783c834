package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// tapSilence is how long a tap may be silent. The proxy sends something every 15 seconds at least.
const tapSilence = 45 * time.Second

func newSessionTapCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var form output
	var q api.TapQuery
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "tap [ID]",
		Short: "Show a session's frames as they pass, and what the profile makes of them",
		Long: `Show what happens on a session: each frame with its direction, kind and size, the beginning of texts, the
profile's verdict on the messages that it inspects, the frames that the proxy itself sends, and what becomes of
the backend's connection afterwards. Audio and other binary messages are shown by their size only.

ID names a session that runs, or a client that waits for a connection. Without it, --client, --backend and
--service choose the next sessions that begin, --first of them. A tap ends with its sessions and their
connections, after --for, or with Ctrl-C.

Texts are what clients and servers say to each other: the proxy notes each tap in its audit log, and shows in the
session that it is tapped. A tap that cannot keep up misses events, and says how many: it never slows a session.`,
		Example: `  wsbouncer session tap q7m2kd4x-1042
  wsbouncer session tap --backend gpu-2 --first 3 --text 60
  wsbouncer session tap --client 10.1.2.3 --output json | jq -r 'select(.event == "verdict").what'`,
		ValidArgsFunction: completeSessions(false),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(fmt.Errorf("%s takes the id of one session, but got %d", cmd.CommandPath(), len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				q.Session = args[0]
			}
			q.Seconds, q.Order = limit.Seconds(), order.order()
			if err := checkTap(cmd, &q, limit); err != nil {
				return usageError(err)
			}
			return from.use(func(proxy *client.Client) error {
				several := q.Session == "" && q.First > 1
				return runTap(cmd, proxy, &q, newTapPrinter(cmd.OutOrStdout(), form.form == asJSON, several))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Client, "client", "", "the next sessions of this client: an address, or an address and port")
	flags.StringVar(&q.Backend, "backend", "", "the next sessions that this backend serves")
	flags.StringVar(&q.Service, "service", "", "the next sessions of this service")
	flags.IntVar(&q.First, "first", 1, "without ID: number of sessions to show")
	flags.IntVar(&q.Text, "text", api.DefaultTapText, fmt.Sprintf("bytes to show of each text, at most %d; 0 for none", api.MaxTapText))
	flags.DurationVar(&limit, "for", api.MaxTapSeconds*time.Second, "maximum time to watch, at most 1h")
	completeFlag(cmd, "service", config.KindService)
	completeFlag(cmd, "backend", config.KindBackend)
	form.add(cmd, "text", asJSON)
	order.add(cmd)
	from.add(cmd)
	return cmd
}

// checkTap checks the flags in their own words.
func checkTap(cmd *cobra.Command, q *api.TapQuery, limit time.Duration) error {
	filters := q.Client != "" || q.Backend != "" || q.Service != ""
	switch {
	case len(cmd.Flags().Args()) == 1 && isNoID(q.Session):
		return fmt.Errorf("invalid session id %q: 'wsbouncer session ls' lists them", q.Session)
	case q.Session == "" && !filters:
		return errors.New("nothing is chosen: give the id of a session ('wsbouncer session ls' lists them), or --client, --backend or --service " +
			"for the next sessions that begin")
	case q.Session != "" && (filters || cmd.Flags().Changed("first")):
		return fmt.Errorf("the id %.40q chooses one session: leave out --client, --backend, --service and --first", q.Session)
	case q.First < 1 || q.First > api.MaxTapFirst:
		return fmt.Errorf("--first: invalid number \"%d\": use a whole number from 1 to %d", q.First, api.MaxTapFirst)
	case q.Text < 0 || q.Text > api.MaxTapText:
		return fmt.Errorf("--text: invalid number \"%d\": use a whole number of bytes from 0 to %d", q.Text, api.MaxTapText)
	case limit <= 0 || limit > api.MaxTapSeconds*time.Second:
		return fmt.Errorf("--for: invalid duration \"%v\": use a duration above 0 and at most 1h, such as 10m", limit)
	}
	_, err := api.ParseTapQuery(q.Values())
	if err != nil {
		return fmt.Errorf("--%w", err) // it begins with the parameter's name, which is the flag's
	}
	return nil
}

// runTap shows a tap until it ends or the user ends it.
func runTap(cmd *cobra.Command, proxy *client.Client, q *api.TapQuery, p *tapPrinter) error {
	stream, err := proxy.Stream(cmd.Context(), api.TapPath, q.Values(), tapSilence)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if q.Session == "" && isTerminal(cmd.ErrOrStderr()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Waiting for sessions to begin. Ctrl-C ends the tap.")
	}
	for {
		line, err := stream.Line()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the proxy ended the tap without saying why")
		case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
			return nil // Ctrl-C
		case err != nil:
			return err
		case len(line) == 0: // nothing has happened for a while
			continue
		}
		var e api.TapEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the proxy sent a line that is no event: %w", err)
		}
		if err := p.print(line, &e); err != nil {
			return err
		}
		if e.Event == api.TapEnd {
			return nil
		}
	}
}
