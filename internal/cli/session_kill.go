package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/api"
)

// sessionPath returns the path of a session. An id that cannot stand in a path is sent all the same, for the proxy to refuse it.
func sessionPath(id string) string { return api.SessionsPath + "/" + url.PathEscape(id) }

// isNoID reports whether an argument would lead to another path than that of a session.
func isNoID(id string) bool { return id == "" || id == "." || id == ".." }

func newSessionKillCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "kill ID...",
		Short: "End sessions",
		Long: `End sessions, and the wait of clients. A client gets the close code 1012 and a reason; its connection to the
backend is made clean for the next client, or closed. The beginning of an id is enough if no other begins so.

On a terminal, the command asks before it ends more than one session.`,
		Example: `  wsbouncer session kill q7m2kd4x-1042 --why "it streams silence"
  wsbouncer session kill $(wsbouncer session ls --client 10.1.2.3 -o name) --yes`,
		ValidArgsFunction: completeSessions(true),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(fmt.Errorf("%s takes the ids of sessions, but got none: 'wsbouncer session ls' lists them", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if i := slices.IndexFunc(args, isNoID); i >= 0 {
				return usageError(fmt.Errorf("invalid session id %q: 'wsbouncer session ls' lists them", args[i]))
			}
			if len(args) > 1 {
				if err := confirm(cmd, yes, fmt.Sprintf("end %d sessions", len(args))); err != nil {
					return err
				}
			}
			return from.use(func(proxy *client.Client) error {
				var all []error
				for _, id := range args { // one that has ended meanwhile does not save the others
					err := order.do(cmd, proxy, http.MethodDelete, sessionPath(id), nil)
					if err != nil {
						all = append(all, err)
					}
					if errors.As(err, new(*client.UnreachableError)) || cmd.Context().Err() != nil {
						break
					}
				}
				return errors.Join(all...)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	order.add(cmd)
	from.add(cmd)
	return cmd
}
