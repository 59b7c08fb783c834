package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newSessionCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "session",
		Short: "List, show, watch, move and end sessions of a running proxy",
		Long: `A session is one client's time with the proxy, or its wait for it. Its id is in the proxy's log and in the
answer to the client's upgrade request (header ` + api.SessionHeader + `).`,
		Example: `  wsbouncer session ls --backend gpu-2 --sort age
  wsbouncer session show q7m2kd4x-1042
  wsbouncer session kill q7m2kd4x-1042 --why "it streams silence"`,
	}, newSessionListCommand(), newSessionShowCommand(), newSessionMoveCommand(), newSessionKillCommand(), newSessionTapCommand())
}

// sessionFlags choose sessions.
type sessionFlags struct{ api.SessionQuery }

func (f *sessionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Service, "service", "", "only sessions of this service")
	flags.StringVar(&f.Backend, "backend", "", "only sessions that this backend serves")
	flags.StringVar(&f.Client, "client", "", "only sessions of this client: an address, or an address and port")
	flags.StringVar(&f.State, "state", "", "only sessions in this state: "+spelling.OneOf(api.SessionStates))
	flags.StringVar(&f.Tenant, "tenant", "", "only sessions of this tenant")
	flags.StringVar(&f.Sort, "sort", "", "order: "+spelling.OneOf(api.SessionOrders)+" (default: started; with --state ended, ended: the latest first)")
	flags.IntVar(&f.Limit, "limit", 0, "maximum number of sessions to show; 0 for all")
	completeFlag(cmd, "service", config.KindService)
	completeFlag(cmd, "backend", config.KindBackend)
	completeWords(cmd, "state", api.SessionStates)
	completeWords(cmd, "sort", api.SessionOrders)
}

func (f *sessionFlags) check() error {
	switch {
	case f.State != "" && !slices.Contains(api.SessionStates, f.State):
		return usageError(fmt.Errorf("--state: %w", spelling.Unknown("state", f.State, api.SessionStates)))
	case f.Sort != "" && !slices.Contains(api.SessionOrders, f.Sort):
		return usageError(fmt.Errorf("--sort: %w", spelling.Unknown("order", f.Sort, api.SessionOrders)))
	case f.State == api.StateEnded && (f.Sort == "rate" || f.Sort == "lag"):
		return usageError(fmt.Errorf("--sort: sessions that have ended have no %s: use another order", f.Sort))
	case f.Limit < 0:
		return usageError(fmt.Errorf("--limit: invalid number \"%d\": use a whole number from 0 (no limit)", f.Limit))
	}
	return nil
}

func newSessionListCommand() *cobra.Command {
	var from proxyFlags
	var form listFlags
	var chosen sessionFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the sessions and waiting clients",
		Long: `List the sessions and the clients that wait for a connection, the oldest first. --state ended lists the sessions
that have ended, the latest first, as far as the proxy has kept them: some thousand, over restarts
and upgrades if it has a state directory.

LAG is the age of the oldest audio or message that the backend has not answered, as far as the profile tells, and otherwise
how long the backend has sent nothing since the client sent something.

--sort rate first measures the frames per second of the sessions, for a second. It lists at most 1000, of the proxy that is asked only.

In a fleet, the sessions of all its proxies are listed, unless --local is given. Proxies that could not be asked are named.`,
		Example: `  wsbouncer session ls --service stt --sort age --limit 20
  wsbouncer session ls --backend gpu-2 --watch
  wsbouncer session ls --state waiting --output wide
  wsbouncer session ls --client 10.1.2.3 --output json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chosen.check(); err != nil {
				return err
			}
			return from.use(func(proxy *client.Client) error {
				return form.run(cmd, func(messages io.Writer) (*rows, error) {
					if err := chosen.known(cmd.Context(), proxy); err != nil {
						return nil, err
					}
					list, err := sessions(cmd.Context(), proxy, chosen.SessionQuery)
					if err != nil {
						return nil, err
					}
					sayMissing(messages, list.Missing)
					r, n := sessionRows(list, chosen.SessionQuery), len(list.Sessions)
					if n < list.Matched && (chosen.Limit == 0 || n < chosen.Limit) && (form.forPrograms() || form.form == asName) {
						fmt.Fprintln(messages, r.note) // these forms have no note, and would seem to have all that was asked for
					}
					return r, nil
				})
			})
		},
	}
	chosen.add(cmd)
	from.add(cmd)
	from.addLocal(cmd)
	form.add(cmd)
	return cmd
}

// known returns an error if the flags name a service or backend that the proxy does not know, since an empty list would say that it
// has no sessions. Sessions that have ended may be of one that is gone.
func (f *sessionFlags) known(ctx context.Context, proxy *client.Client) error {
	if f.State == api.StateEnded || f.Service == "" && f.Backend == "" {
		return nil
	}
	var now api.Stats
	if err := proxy.Get(ctx, api.StatsPath, nil, &now); err != nil {
		return err
	}
	var services []string
	backends := now.BackendNames()
	for _, s := range now.Services {
		services = append(services, s.Name)
	}
	for _, b := range now.Leaving {
		backends, services = append(backends, b.Name), append(services, b.Service)
	}
	switch {
	case f.Service != "" && !slices.Contains(services, f.Service):
		return spelling.Unknown("service", f.Service, services)
	case f.Backend != "" && !slices.Contains(backends, f.Backend):
		return spelling.Unknown("backend", f.Backend, backends)
	}
	return nil
}

// sessions returns the sessions that a query chooses.
func sessions(ctx context.Context, proxy *client.Client, query api.SessionQuery) (list api.SessionList, err error) {
	if query.Sort == "rate" {
		return measured(ctx, proxy, query)
	}
	err = proxy.Get(ctx, api.SessionsPath, query.Values(), &list)
	return list, err
}

// sessionRows returns the sessions that a query has chosen. How they ended, and the rate that was measured for their order, is always shown.
func sessionRows(list api.SessionList, query api.SessionQuery) *rows {
	ended, measured := query.State == api.StateEnded, query.Sort == "rate"
	r := &rows{
		heads: []string{"ID", "SERVICE", "BACKEND", "CLIENT", "STATE", "AGE", "WAITED", "IN", "OUT"},
		all:   append([]api.Session{}, list.Sessions...),
	}
	if ended {
		r.heads = append(r.heads, "ENDED", "BY", "CODE", "REASON")
	} else {
		r.heads = append(r.heads, "LAG")
	}
	if measured {
		r.heads = append(r.heads, "FRAMES/S")
	}
	inFleet := slices.ContainsFunc(list.Sessions, func(s api.Session) bool { return s.Proxy != "" })
	if inFleet {
		r.heads = append(r.heads, "PROXY")
	}
	wide := []string{"AUDIO IN", "STARTED", "FRAMES IN", "FRAMES OUT", "FIRST REPLY", "CONNECTION", "TENANT", "REQUEST", "MOVES", "KEPT", "ASSURED"}
	r.heads, r.wide = append(r.heads, wide...), len(wide)
	for i := range list.Sessions {
		s := &list.Sessions[i]
		state := s.State
		if s.Place > 0 {
			state += fmt.Sprintf(" (%d.)", s.Place)
		}
		row := []string{
			s.ID, s.Service, s.Backend, s.Client, state, figures.Seconds(s.AgeSeconds), measuredSeconds(s.WaitedSeconds),
			figures.Bytes(float64(s.BytesFromClient)), figures.Bytes(float64(s.BytesFromBackend)),
		}
		if ended {
			row = append(row, s.Ended.UTC().Format(time.RFC3339), s.By, codeOf(s), s.Reason)
		} else {
			row = append(row, measuredSeconds(s.LagSeconds))
		}
		if measured {
			row = append(row, measuredRate(s.FramesPerSecond))
		}
		if inFleet {
			row = append(row, s.Proxy)
		}
		row = append(
			row, audioText(s.AudioInSeconds, s.AudioInEstimatedSeconds, s.AudioInUnknownBytes), s.Started.UTC().Format(time.RFC3339), strconv.FormatUint(s.FramesFromClient, 10), strconv.FormatUint(s.FramesFromBackend, 10),
			firstReply(s), s.Connection, s.Tenant, s.RequestID,
			countOf(s.Failovers), keptOf(s), assured(s),
		)
		r.cells = append(r.cells, row)
		r.names = append(r.names, s.ID)
	}
	if hidden := list.Matched - len(list.Sessions); hidden > 0 {
		r.note = fmt.Sprintf("%d of %d sessions; --limit 0 shows all.", len(list.Sessions), list.Matched)
		if measured && list.Matched > api.MaxEventSessions {
			r.note = fmt.Sprintf("%d of %d sessions; --sort rate shows at most %d.", len(list.Sessions), list.Matched, api.MaxEventSessions)
		}
	}
	return r
}

// codeOf returns the close code that a client got; empty for none.
func codeOf(s *api.Session) string {
	if s.Code == 0 {
		return ""
	}
	return strconv.Itoa(int(s.Code))
}

// measuredSeconds returns a duration; empty if nothing was measured.
func measuredSeconds(s float64) string {
	if s <= 0 {
		return ""
	}
	return figures.Seconds(s)
}

// firstReply returns how long the first reply took; with > if it is still owed.
func firstReply(s *api.Session) string {
	text := measuredSeconds(s.FirstReplySeconds)
	if s.FirstReplyOwed {
		text = ">" + text
	}
	return text
}

// measuredRate returns a rate; empty if nothing was measured.
func measuredRate(n float64) string {
	if n <= 0 {
		return ""
	}
	return figures.Rate(n)
}

// completeSessions has shells complete the ids of sessions.
func completeSessions(several bool) cobra.CompletionFunc {
	return completeRunning(several, func(ctx context.Context, proxy *client.Client) (ids []string) {
		list, _ := sessions(ctx, proxy, api.SessionQuery{Sort: "started", Limit: 1000})
		for _, s := range list.Sessions {
			ids = append(ids, s.ID)
		}
		return ids
	})
}
