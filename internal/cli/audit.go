package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newAuditCommand() *cobra.Command {
	var from proxyFlags
	var form listFlags
	var since string
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what to a running proxy, and from where ('config history' has the changed values)",
		Long: `Show who did what to a running proxy, and from where, newest first: changes of the configuration, actions such as pause, kill,
tap and reload, also failed and refused ones, and wrong tokens.

CALLER is what the proxy knows: the token, or the user of its machine. WHO is what the caller says. What a change of the
configuration changed is in 'wsbouncer config history'. A proxy keeps its last 500 actions until it ends. Its log has them all, as lines
"operator action". The command is for one proxy, also in a fleet.`,
		Example: `  wsbouncer audit
  wsbouncer audit --since 2h --output wide
  wsbouncer audit --output json | jq '.[] | select(.result == "refused")'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError(fmt.Errorf("--limit: invalid number \"%d\": use a whole number from 0, which is for all", limit))
			}
			after, err := whenOf("since", since, time.Now())
			if err != nil {
				return usageError(err)
			}
			return from.use(func(proxy *client.Client) error {
				return form.run(cmd, func(io.Writer) (*rows, error) {
					var actions []api.Action
					if err := proxy.Get(cmd.Context(), api.AuditPath, nil, &actions); err != nil {
						return nil, err
					}
					actions = slices.DeleteFunc(actions, func(a api.Action) bool { return a.Time.Before(after) })
					return auditRows(actions, limit), nil
				})
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only actions at this time or later: a time of today or yesterday (03:00), a time (2026-11-27T03:00:00Z), or a duration (2h)")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of actions to show; 0 for all")
	from.add(cmd)
	form.output.add(cmd, "table", asWide, asJSON, asYAML)
	form.addWatch(cmd)
	return cmd
}

// longestDetail is how much of a detail a table shows at most, in bytes.
const longestDetail = 160

// auditRows has a row for each action.
func auditRows(actions []api.Action, limit int) *rows {
	shown := actions
	if limit > 0 {
		shown = actions[:min(limit, len(actions))]
	}
	r := &rows{heads: []string{"TIME", "ACTION", "TARGET", "RESULT", "CALLER", "WHO", "FROM", "DETAIL", "WHY"}, wide: 1, all: append([]api.Action{}, shown...)}
	for i := range shown {
		a := &shown[i]
		r.cells = append(r.cells, []string{clock(a.Time.Truncate(time.Second)), a.Action, a.Target, a.Result, a.Caller, a.Who, a.From, printable.Text(a.Detail, longestDetail), a.Why})
	}
	switch more := len(actions) - len(shown); {
	case more > 0:
		r.note = fmt.Sprintf("and %d more (--limit 0)", more)
	case len(shown) == 0:
		r.note = "No actions."
	}
	return r
}
