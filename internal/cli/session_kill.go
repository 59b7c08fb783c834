package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// sessionPath returns the path of a session. An id that cannot stand in a path is sent all the same, for the proxy to refuse it.
func sessionPath(id string) string { return api.SessionsPath + "/" + url.PathEscape(id) }

// isNoID reports whether an argument would lead to another path than that of a session.
func isNoID(id string) bool { return id == "" || id == "." || id == ".." }

func newSessionKillCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var yes, dryRun bool
	var all killAllFlags
	cmd := &cobra.Command{
		Use:   "kill ID... | --backend NAME",
		Short: "End sessions",
		Long: `End sessions, and the wait of clients. A client gets the close code 1012 and a reason; its connection to the
backend is made clean for the next client, or closed.

With --backend, the command ends all sessions that a backend serves now, spread evenly over the time --within, so
that their clients do not all come back at once. Drain the backend first ('wsbouncer backend drain'), or else new
sessions begin there meanwhile. Another order for the same backend replaces one that is not completed.

On a terminal, the command asks before it ends more than one session.`,
		Example: `  wsbouncer session kill q7m2kd4x-1042 --why "it streams silence"
  wsbouncer session kill --backend gpu-2 --dry-run
  wsbouncer session kill --backend gpu-2 --within 30s --why "new model" --yes
  wsbouncer session kill $(wsbouncer session ls --client 10.1.2.3 -o name) --yes`,
		ValidArgsFunction: completeSessions(true),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := all.check(cmd, args); err != nil || all.backend != "" {
				return err
			}
			if len(args) == 0 {
				return usageError(fmt.Errorf("%s takes the ids of sessions, but got none: 'wsbouncer session ls' lists them", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if all.backend != "" && !dryRun {
				return all.run(cmd, &from, &order, yes)
			}
			if i := slices.IndexFunc(args, isNoID); i >= 0 {
				return usageError(fmt.Errorf("invalid session id %q: 'wsbouncer session ls' lists them", args[i]))
			}
			if dryRun {
				return from.use(func(proxy *client.Client) error { return showKilled(cmd, proxy, all.backend, args) })
			}
			if len(args) > 1 {
				if err := confirm(cmd, yes, fmt.Sprintf("end %d sessions", len(args))); err != nil {
					return err
				}
			}
			return from.use(func(proxy *client.Client) error {
				var paths []string
				for _, id := range args { // one that has ended meanwhile does not save the others
					paths = append(paths, sessionPath(id))
				}
				return order.doAll(cmd, proxy, http.MethodDelete, paths)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show which sessions the command would end, without ending them")
	all.add(cmd)
	order.add(cmd)
	from.add(cmd)
	from.addLocal(cmd)
	return cmd
}

// showKilled prints the sessions that 'session kill' would end: those of a backend, or those with these ids.
func showKilled(cmd *cobra.Command, proxy *client.Client, backend string, ids []string) error {
	var list api.SessionList
	if backend != "" {
		chosen := sessionFlags{api.SessionQuery{Backend: backend}}
		err := chosen.known(cmd.Context(), proxy)
		if err == nil {
			list, err = sessions(cmd.Context(), proxy, chosen.SessionQuery)
		}
		if err != nil {
			return err
		}
		sayMissing(cmd.ErrOrStderr(), list.Missing)
	}
	for _, id := range ids {
		var s api.SessionDetail
		if err := proxy.Get(cmd.Context(), sessionPath(id), nil, &s); err != nil {
			return err
		}
		list.Sessions = append(list.Sessions, s.Session)
	}
	out, n := cmd.OutOrStdout(), len(list.Sessions)
	if n > 0 {
		if err := sessionRows(list, api.SessionQuery{}).print(out, new(output)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Dry run: nothing was ended. The command would end %s.\n", figures.Plural(n, "session"))
	if refusal := refusedHere(cmd.Context(), proxy); refusal != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), refusal)
	}
	return nil
}
