package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// checkMoveTime checks how long sessions may take to come to an answered point.
func checkMoveTime(timeout time.Duration) error {
	if timeout < 0 || timeout > api.MaxMoveTime {
		return usageError(fmt.Errorf("--timeout: invalid duration \"%v\": use 0 (by replay at once) to 1h, such as 30s", timeout))
	}
	return nil
}

func newSessionMoveCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var to string
	timeout := api.MoveTime
	cmd := &cobra.Command{
		Use:   "move ID",
		Short: "Move a session to another backend",
		Long: `Move a session to another backend of its service, at its next answered point: when the backend has answered
all that the client has said. If it has not come to one within --timeout, the other backend gets the audio again that
is not answered. The client notices nothing but, perhaps, a moment. The service must have failover: replay.

The command waits for the result, and says how many seconds of audio were replayed. If the session cannot be moved, it
stays where it is, and the exit status is 1.`,
		Example: `  wsbouncer session move q7m2kd4x-1042
  wsbouncer session move q7m2kd4x-1042 --to gpu-2 --timeout 0s --why "try the new server"`,
		ValidArgsFunction: completeSessions(false),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || isNoID(args[0]) {
				return usageError(fmt.Errorf("%s takes the id of one session, but got %s: 'wsbouncer session ls' lists them", cmd.CommandPath(), quoted(args)))
			}
			if cmd.Flags().Changed("to") && to == "" {
				return usageError(errors.New("--to: the name is missing"))
			}
			return checkMoveTime(timeout)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.use(func(proxy *client.Client) error {
				query := url.Values{"timeout": {timeout.String()}}
				if to != "" {
					query.Set("to", to)
				}
				m := mover{proxy: proxy, order: order, out: cmd.OutOrStdout(), every: pollEvery}
				return m.run(cmd.Context(), sessionPath(args[0])+"/move", query)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "backend to move it to (default: any other of its service)")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "time to wait for an answered point; after that it moves by replay; 0 for at once")
	completeFlag(cmd, "to", config.KindBackend)
	order.add(cmd)
	from.add(cmd)
	from.addLocal(cmd)
	return cmd
}

// mover has sessions moved, and prints what comes of each.
type mover struct {
	proxy *client.Client
	order orderFlags
	out   io.Writer
	every time.Duration // between two looks

	told    map[string]bool    // the sessions whose result was printed
	missing []api.MissingProxy // that may not have got the order
}

// errNotMoved is that the session stays where it is.
var errNotMoved = errors.New("the session was not moved")

// run gives the order and waits until it is carried out. It returns an error if a session was not moved.
func (m *mover) run(ctx context.Context, path string, query url.Values) error {
	var moving api.Moving
	err := m.proxy.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Query: query, Body: m.order.order()}, &moving)
	m.told, m.missing = make(map[string]bool), moving.Missing
	for err == nil {
		m.tell(&moving)
		if moving.Done {
			return m.result(&moving)
		}
		if !tasks.Sleep(ctx, m.every) {
			return fmt.Errorf("interrupted: %s left; the proxy continues to move them", figures.Plural(openSessions(&moving), "session"))
		}
		moving = api.Moving{}
		err = m.proxy.Get(ctx, path, nil, &moving)
	}
	return err
}

// tell prints the results that are new.
func (m *mover) tell(moving *api.Moving) {
	for i := range moving.Sessions {
		s := &moving.Sessions[i]
		if !s.IsOpen() && !m.told[s.ID] {
			m.told[s.ID] = true
			at := ""
			if s.Proxy != "" {
				at = " at " + s.Proxy
			}
			fmt.Fprintf(m.out, "session %s%s: %s\n", s.ID, at, s)
		}
	}
}

// result prints the sum for a backend, and returns the error for sessions that were not moved.
func (m *mover) result(moving *api.Moving) (err error) {
	stayed := moving.Count(api.MoveRefused)
	var unknown []error
	for i := range moving.Missing {
		unknown = append(unknown, errors.New(moving.Missing[i].String()))
	}
	for i := range m.missing { // it has nothing to say of an order that it did not get
		if !slices.ContainsFunc(moving.Missing, func(now api.MissingProxy) bool { return now.ID == m.missing[i].ID }) {
			unknown = append(unknown, errors.New(m.missing[i].String()))
		}
	}
	defer func() { err = errors.Join(append(unknown, err)...) }()
	if moving.Backend != "" {
		if len(moving.Sessions) == 0 {
			fmt.Fprintf(m.out, "backend %s: no sessions to move\n", moving.Backend)
			return nil
		}
		fmt.Fprintf(m.out, "backend %s: %s moved, %d not moved, %d ended meanwhile\n",
			moving.Backend, figures.Plural(moving.Count(api.MoveDone), "session"), stayed, moving.Count(api.MoveEnded))
	}
	switch {
	case moving.Replaced:
		return errors.New("another order to move the same took the place of this one")
	case stayed > 0 && moving.Backend == "":
		return errNotMoved
	case stayed > 0:
		return fmt.Errorf("backend %s still serves %s that could not be moved", moving.Backend, figures.Plural(stayed, "session"))
	case moving.Count(api.MoveDone) == 0 && moving.Backend == "":
		return errors.New("the session has ended")
	}
	return nil
}

// openSessions returns how many sessions have no result yet.
func openSessions(m *api.Moving) (n int) {
	for i := range m.Sessions {
		if m.Sessions[i].IsOpen() {
			n++
		}
	}
	return n
}

// moveAll empties backends one after the other, once the version of the configuration that takes new clients from them is in force.
func moveAll(cmd *cobra.Command, w *waiter, proxy *client.Client, order orderFlags, timeout time.Duration, out io.Writer) error {
	if err := w.inForce(cmd.Context()); err != nil {
		return err
	}
	var all []error
	for _, name := range w.names {
		m := mover{proxy: proxy, order: order, out: out, every: w.every}
		path := api.BackendsPath + "/" + url.PathEscape(name) + "/move"
		if err := m.run(cmd.Context(), path, url.Values{"timeout": {timeout.String()}}); err != nil {
			all = append(all, err)
		}
		if cmd.Context().Err() != nil {
			break
		}
	}
	return errors.Join(all...)
}
