package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newSessionShowCommand() *cobra.Command {
	var from proxyFlags
	var form output
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything that is known about a session",
		Long: `Show everything that is known about a session: what it has relayed, its place in the queue while it waits, its
connection to the backend and the sessions that had it before, and how the session ended. The proxy remembers the
latest sessions that have ended.`,
		Example:           "  wsbouncer session show q7m2kd4x-1042",
		ValidArgsFunction: completeSessions(false),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || isNoID(args[0]) {
				return usageError(fmt.Errorf("%s takes the id of one session, but got %s: 'wsbouncer session ls' lists them", cmd.CommandPath(), quoted(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.use(func(proxy *client.Client) error {
				var s api.SessionDetail
				if err := proxy.Get(cmd.Context(), sessionPath(args[0]), nil, &s); err != nil {
					return err
				}
				if form.forPrograms() {
					return form.print(cmd.OutOrStdout(), s)
				}
				return showSession(cmd.OutOrStdout(), &s)
			})
		},
	}
	from.add(cmd)
	from.addLocal(cmd)
	form.add(cmd, "table", asJSON, asYAML)
	return cmd
}

// quoted returns arguments as an error shows them.
func quoted(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", args)
}

// showSession prints a session for people. It leaves out what does not concern this session.
func showSession(out io.Writer, s *api.SessionDetail) error {
	cells := sessionFields(s)
	for _, part := range []struct {
		title string
		cells [][]string
	}{{"", cells}, {"QUEUE", placeFields(s.Queue)}, {"CONNECTION", connectionFields(s.Server)}, {"FAILOVER", failoverFields(s.Failover)}} {
		if len(part.cells) == 0 {
			continue
		}
		head := "FIELD"
		if part.title != "" {
			head = part.title
			fmt.Fprintln(out)
		}
		if err := table(out, []string{head, "VALUE"}, part.cells); err != nil {
			return err
		}
	}
	if s.Failover != nil && len(s.Failover.Moves) > 0 {
		if err := showMoves(out, s.Failover.Moves); err != nil {
			return err
		}
	}
	if len(s.Before) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nEarlier sessions of this connection")
	var before [][]string
	for i := range s.Before {
		b := &s.Before[i]
		before = append(before, []string{b.ID, b.Client, clock(b.Started), figures.Seconds(b.AgeSeconds), endOf(b), b.Fate})
	}
	return table(out, []string{"ID", "CLIENT", "STARTED", "LASTED", "ENDED", "CONNECTION"}, before)
}

func sessionFields(s *api.SessionDetail) [][]string {
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	add("id", s.ID)
	add("proxy", s.Proxy)
	add("state", s.State)
	add("service", s.Service)
	add("path", s.Path)
	add("profile", s.Profile)
	add("host", s.Host)
	add("backend", s.Backend)
	add("client", s.Client)
	add("peer", s.Peer)
	add("tenant", s.Tenant)
	add("subject", s.Subject)
	add("authenticated by", s.Auth)
	add("key", s.Key)
	add("request id", s.RequestID)
	add("trace id", s.TraceID)
	lasted, ended, how := "age", "ending since", "how it ends" // its end may be decided before it has come
	if s.State == api.StateEnded {
		lasted, ended, how = "lasted", "ended", "how it ended"
	}
	add("started", stamp(s.Started))
	add(ended, stamp(s.Ended))
	add(lasted, figures.Seconds(s.AgeSeconds))
	add("waited", figures.Seconds(s.WaitedSeconds)+" for a connection")
	add(how, endOf(&s.Session))
	add("class", s.Class)
	add("connection then", s.Fate)
	add("from client", traffic(s.FramesFromClient, s.BytesFromClient))
	add("from backend", traffic(s.FramesFromBackend, s.BytesFromBackend))
	add("audio in", audioText(s.AudioInSeconds, s.AudioInEstimatedSeconds, s.AudioInUnknownBytes))
	add("audio out", audioText(s.AudioOutSeconds, s.AudioOutEstimatedSeconds, s.AudioOutUnknownBytes))
	add("first reply", firstReply(&s.Session))
	add("lag", measuredSeconds(s.LagSeconds))
	add("result owed for", measuredSeconds(s.OwedSeconds))
	add("last from client", ago(s.ClientSilentSeconds))
	add("last from backend", ago(s.BackendSilentSeconds))
	add("moved", timesTo("connection", s.Moves))
	if s.MoveTimeoutSeconds > 0 {
		add("waits to be moved", "gives up in "+figures.Seconds(s.MoveTimeoutSeconds))
	}
	add("failovers", timesTo("backend", s.Failovers))
	add("variant", s.Variant)
	var paused []string
	if s.Paused {
		paused = append(paused, "the client is not read: "+figures.Bytes(float64(s.PendingToBackend))+" wait for the backend")
	}
	if s.BackendPaused {
		paused = append(paused, "the backend is not read: "+figures.Bytes(float64(s.PendingToClient))+" wait for the client")
	}
	add("paused", strings.Join(paused, "; "))
	if h := s.HeldBack; h != nil {
		add("held back", h.Limit+", since "+stamp(h.Since))
	}
	if s.Taps > 0 {
		add("taps", figures.Plural(s.Taps, "operator")+" watching its frames")
	}
	return rows
}

// ago returns how long ago something was; empty if that is not known.
func ago(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return figures.Seconds(seconds) + " ago"
}

func placeFields(q *api.Place) [][]string {
	if q == nil {
		return nil
	}
	return [][]string{
		{"place", fmt.Sprintf("%d of %d", q.Place, q.Waiting)},
		{"waited", figures.Seconds(q.WaitedSeconds)},
		{"gives up in", figures.Seconds(q.TimeoutSeconds)},
	}
}

func connectionFields(c *api.Connection) [][]string {
	if c == nil {
		return nil
	}
	rows := [][]string{
		{"id", c.ID},
		{"state", c.State},
		{"established", clock(c.Established)},
		{"age", figures.Seconds(c.AgeSeconds)},
		{"sessions", strconv.Itoa(c.Sessions) + ", this one included"},
	}
	for _, optional := range [][2]string{{"ping", measuredSeconds(c.RoundTripSeconds)}, {"subprotocol", c.Subprotocol}, {"profile", c.Boundary}} {
		if optional[1] != "" {
			rows = append(rows, optional[:])
		}
	}
	return rows
}

// endOf says in a line how a session ended; empty if it has not.
func endOf(s *api.Session) string {
	if s.By == "" {
		return ""
	}
	text := "by the " + s.By
	if s.Code != 0 {
		text += fmt.Sprintf(", code %d", s.Code)
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

func traffic(frames, bytes uint64) string {
	return figures.Plural(int(frames), "frame") + ", " + figures.Bytes(float64(bytes))
}
