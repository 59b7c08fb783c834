package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// proxyStatus is all that 'status' shows; its JSON is the command's.
type proxyStatus struct {
	Proxy    string        `json:"proxy"`
	Well     bool          `json:"well"`     // no client is hurt, and nothing is a failure
	Problems []api.Problem `json:"problems"` // null for a proxy of a version that does not report them
	Failed   []api.Session `json:"failed"`   // sessions that a backend or the proxy ended with a fault, the latest first
	Stats    api.Stats     `json:"stats"`
	hidden   error         // why sessions are not shown
	cures    *cures        // how cures are shown
}

func newStatusCommand() *cobra.Command {
	var from proxyFlags
	var form listFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how a running proxy is doing",
		Long: `Show on one screen how a running proxy is doing: what is wrong, who waits and for how long, which backend is slow or
out of service, since when and why, which sessions failed lately, and which configuration is in force.

Problems are in the order of whom they hurt, ! is a failure, and the kind of each is in brackets:
docs/troubleshoot.md explains it. TIMED OUT, FULL and EVICTED count clients that got no connection: they waited
for queue-timeout, found the queue full, or lost their place in it to another tenant's client.`,
		Example: `  wsbouncer status
  wsbouncer status --watch
  wsbouncer status --output json | jq .problems`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.use(func(proxy *client.Client) error {
				return form.show(cmd, func(out, messages io.Writer) error {
					s, err := readStatus(cmd.Context(), proxy)
					if err != nil {
						return err
					}
					if s.hidden != nil {
						fmt.Fprintf(messages, "Sessions are not shown: %v\n", s.hidden)
					}
					if form.forPrograms() {
						return form.print(out, s)
					}
					s.cures = from.curesAt(cmd, proxy)
					return s.print(out, time.Now())
				})
			})
		},
	}
	from.add(cmd)
	from.addLocal(cmd)
	form.output.add(cmd, "text", asJSON, asYAML)
	form.addWatch(cmd)
	return cmd
}

// readStatus reads all that 'status' shows. An older proxy has no sessions to show, which is no error.
func readStatus(ctx context.Context, proxy *client.Client) (*proxyStatus, error) {
	s := &proxyStatus{Proxy: proxy.Address(), Failed: []api.Session{}}
	if err := proxy.Get(ctx, api.StatsPath, nil, &s.Stats); err != nil {
		return nil, err
	}
	diagnosis.DescribeOlder(&s.Stats)
	ended, err := sessions(ctx, proxy, api.SessionQuery{State: api.StateEnded})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.As(err, new(*client.UnreachableError)) {
		return nil, err
	}
	s.hidden = err
	s.Problems = s.Stats.Problems
	s.Well = s.Problems != nil && !slices.ContainsFunc(s.Problems, func(p api.Problem) bool {
		return p.Level == api.LevelFailure || p.Hurts == api.HurtsClients
	})
	for i := range ended.Sessions {
		if diagnosis.Failed(&ended.Sessions[i]) {
			s.Failed = append(s.Failed, ended.Sessions[i])
		}
	}
	slices.SortFunc(s.Failed, func(a, b api.Session) int { return b.Ended.Compare(a.Ended) })
	return s, nil
}

// print prints the screen.
func (s *proxyStatus) print(out io.Writer, now time.Time) error {
	colours := colours(out)
	colour := func(c, text string) string {
		if colours {
			return paint(c, text)
		}
		return text
	}
	st := &s.Stats
	waiting := 0
	for i := range st.Services {
		waiting += st.Services[i].Queue.Waiting
	}
	fmt.Fprintf(out, "%s at %s, up %s: %s, %d waiting\n", colour(bold, "wsbouncer "+st.Version), s.Proxy, figures.Seconds(st.UptimeSeconds),
		figures.Plural(int(st.Sessions.Active), "session"), waiting)
	c := st.Configuration
	fmt.Fprintf(out, "Configuration: version %s of %s, %s, in force since %s\n\n", c.Version, c.Source, c.State, clock(c.Applied))

	s.printProblems(out, now, colour)
	if st.Fleet.Shares() {
		fmt.Fprintln(out, "\n"+fleetLine(st.Fleet))
	}
	if line := failoverLine(st); line != "" {
		fmt.Fprintln(out, "\n"+line)
	}

	fmt.Fprintln(out)
	if err := table(out, []string{"SERVICE", "WAITING", "LONGEST", "UTILISATION", "QUEUED", "TIMED OUT", "FULL", "EVICTED", "STATE"}, s.services()); err != nil {
		return err
	}
	fmt.Fprintln(out)
	heads, cells := []string{"BACKEND", "SERVICE", "LEASED", "IDLE", "CAP", "FIRST REPLY", "PING", "BROKEN", "HEALTH", "SINCE"}, s.backends(now)
	if slices.ContainsFunc(st.Backends, func(b api.Backend) bool { return b.Calibrated > 0 }) {
		heads = append(heads, "CALIBRATED")
		for i := range st.Backends {
			cells[i] = append(cells[i], countOf(st.Backends[i].Calibrated))
		}
	}
	if slices.ContainsFunc(st.Backends, func(b api.Backend) bool { return b.Published != nil }) {
		heads = append(heads, "PUBLISHED")
		for i := range st.Backends {
			cells[i] = append(cells[i], publishedCell(st.Backends[i].Published))
		}
	}
	if err := table(out, heads, cells); err != nil {
		return err
	}
	if st.Fleet.Shares() {
		fmt.Fprintln(out)
		if err := printProxies(out, st.Fleet); err != nil {
			return err
		}
	}
	if err := s.printCertificates(out, now); err != nil {
		return err
	}
	return s.printFailed(out, now)
}

// printProblems prints what is wrong, below a sentence for each group of those whom it hurts.
func (s *proxyStatus) printProblems(out io.Writer, now time.Time, colour func(c, text string) string) {
	switch {
	case s.Problems == nil:
		fmt.Fprintln(out, "This proxy is older, and does not report problems: see its tables.")
	case len(s.Problems) == 0:
		fmt.Fprintln(out, s.unnamed(colour))
	}
	for i := range s.Problems {
		p := &s.Problems[i]
		mark, c := "-", yellow
		if p.Level == api.LevelFailure {
			mark, c = "!", red
		}
		if i == 0 || p.Hurts != s.Problems[i-1].Hurts {
			fmt.Fprintln(out, colour(c, hurting(p.Hurts, i == 0)))
		}
		since := ""
		if !p.Since.IsZero() {
			since = fmt.Sprintf(" (since %s, %s)", clock(p.Since), figures.Since(p.Since, now))
		}
		fmt.Fprintf(out, "  %s %s: %s%s%s %s\n", colour(c, mark), colour(c, printable.Text(p.What, longestCell)), printable.Text(p.Text, longestCell), seenBy(p), since,
			colour(dim, "["+printable.Text(p.Kind, longestCell)+"]"))
		if p.Cure != "" {
			fmt.Fprintf(out, "      %s\n", printable.Text(s.cures.show(p.Cure), longestCell))
		}
	}
	if slices.ContainsFunc(s.Problems, func(p api.Problem) bool { return p.Cure != "" }) && s.cures.note != "" {
		fmt.Fprintln(out, printable.Text(s.cures.note, longestCell))
	}
}

// unnamed returns what stands there when nothing is named as a problem, which may be because it has not lasted for long enough, or because
// there is nothing that could have one.
func (s *proxyStatus) unnamed(colour func(c, text string) string) string {
	var all []string
	for i := range s.Stats.Backends {
		if c := &s.Stats.Backends[i].Condition; c.Level == api.LevelFailure {
			all = append(all, printable.Text(s.Stats.Backends[i].Name+" is "+c.Word, longestCell))
		}
	}
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(all[:most], figures.Plural(more, "other"))
	}
	switch {
	case len(s.Stats.Services) == 0:
		return colour(yellow, "There is no service yet. Add one:") + "\n    " + printable.Text(s.cures.show("wsbouncer service add NAME"), longestCell)
	case len(all) == 0:
		return colour(green, "All is well.")
	}
	return colour(yellow, "No problem has lasted for long enough to be named, but "+strings.Join(all, ", ")+".")
}

// hurting returns the sentence above the problems that hurt the same; first if there are none that are worse.
func hurting(whom string, first bool) string {
	switch {
	case whom == api.HurtsClients:
		return "This hurts clients:"
	case whom == api.HurtsSoon && first:
		return "Clients are served. This may hurt them soon:"
	case whom == api.HurtsSoon:
		return "This may hurt clients soon:"
	case first:
		return "Clients are served. To know:"
	}
	return "To know:"
}

// fleetLine says whose numbers these are, in a fleet of several proxies.
func fleetLine(f *api.Fleet) string {
	proxies := fmt.Sprintf("%d proxies", len(f.Proxies))
	if !f.Whole {
		return "All numbers are those of this proxy (*), one of " + proxies + "."
	}
	if missing := len(f.Missing); missing > 0 {
		return fmt.Sprintf("All numbers are the sums of %d of %s; --local shows only this one (*).", len(f.Proxies)-missing, proxies)
	}
	return "All numbers are the sums of " + proxies + "; --local shows only this one (*)."
}

// printProxies prints the proxies that share the servers with this one.
func printProxies(out io.Writer, f *api.Fleet) error {
	var cells [][]string
	for i := range f.Proxies {
		p := &f.Proxies[i]
		name := p.Name
		if slices.ContainsFunc(f.Proxies, func(other api.Proxy) bool { return other.Name == p.Name && other.ID != p.ID }) {
			name += fmt.Sprintf(" (%.4s)", p.ID) // as in other lists
		}
		if p.Self {
			name += " *"
		}
		cells = append(cells, []string{name, p.State, seen(p, "now"), strconv.Itoa(p.Sessions), strconv.Itoa(p.Places), p.Configuration, p.Version, p.Problem})
	}
	return table(out, []string{"PROXY", "STATE", "SEEN", "SESSIONS", "PLACES", "CONFIGURATION", "VERSION", "PROBLEM"}, cells)
}

// printCertificates prints which certificates clients see, and for how long; nothing if no listener speaks TLS.
func (s *proxyStatus) printCertificates(out io.Writer, now time.Time) error {
	if s.Stats.TLS == nil || len(s.Stats.TLS.Certificates) == 0 {
		return nil
	}
	var cells [][]string
	for _, c := range s.Stats.TLS.Certificates {
		file, left := c.File, c.State
		if c.Listener != "" {
			file += " (" + c.Listener + ")"
		}
		if c.State == api.CertificateValid || c.State == api.CertificateExpiring {
			left = figures.Seconds(c.NotAfter.Sub(now).Seconds())
		}
		cells = append(cells, []string{file, strings.Join(c.Names, ", "), clock(c.NotAfter), left})
	}
	fmt.Fprintln(out)
	return table(out, []string{"CERTIFICATE", "NAMES", "EXPIRES", "LEFT"}, cells)
}

func (s *proxyStatus) services() (cells [][]string) {
	for i := range s.Stats.Services {
		v := &s.Stats.Services[i]
		state, now := serviceNow(v)
		cells = append(cells, []string{v.Name, now[0], now[1], now[2], now[3], now[4], now[6], now[7], state})
	}
	return cells
}

func (s *proxyStatus) backends(now time.Time) (cells [][]string) {
	for i := range s.Stats.Backends {
		b := &s.Stats.Backends[i]
		c := b.Condition
		cells = append(cells, []string{
			b.Name, b.Service, strconv.Itoa(b.Leased), strconv.Itoa(b.Idle), s.capCell(b), s.firstReply(b),
			measuredSeconds(b.RoundTripSeconds), strconv.FormatUint(b.Broken, 10), c.Word, figures.Since(c.Since, now),
		})
	}
	for i := range s.Stats.Leaving {
		b := &s.Stats.Leaving[i]
		cells = append(cells, []string{b.Name, b.Service, strconv.Itoa(b.Leased), "", "", "", "", "", "removed", ""})
	}
	return cells
}

// publishedCell returns what a server publishes of its capacity: sessions that it has, and takes at once.
func publishedCell(p *api.Published) string {
	if p == nil || p.At.IsZero() {
		return ""
	}
	used, total := "?", "?"
	if p.Used != nil {
		used = strconv.Itoa(*p.Used)
	}
	if p.Total > 0 {
		total = strconv.Itoa(p.Total)
	}
	return used + "/" + total
}

// capCell returns a backend's cap, and which part of it is this proxy's where only its numbers are shown.
func (s *proxyStatus) capCell(b *api.Backend) string {
	if b.Places == nil || !showsPart(s.Stats.Fleet) {
		return strconv.Itoa(b.Cap)
	}
	return fmt.Sprintf("%d of %d", b.Places.Grant, b.Cap)
}

// printFailed prints the sessions that failed lately.
func (s *proxyStatus) printFailed(out io.Writer, now time.Time) error {
	if s.hidden != nil {
		return nil
	}
	if len(s.Failed) == 0 {
		_, err := fmt.Fprintln(out, "\nNo session has failed lately.")
		return err
	}
	const most = 5
	fmt.Fprintln(out, "\nSessions that failed lately")
	var cells [][]string
	for i := range s.Failed[:min(most, len(s.Failed))] {
		f := &s.Failed[i]
		cells = append(cells, []string{f.ID, f.Service, f.Backend, figures.Since(f.Ended, now) + " ago", figures.Seconds(f.AgeSeconds), endOf(f)})
	}
	if err := table(out, []string{"ID", "SERVICE", "BACKEND", "ENDED", "LASTED", "HOW"}, cells); err != nil {
		return err
	}
	if more := len(s.Failed) - most; more > 0 {
		_, err := fmt.Fprintf(out, "and %d more ('wsbouncer session ls --state ended')\n", more)
		return err
	}
	return nil
}

// firstReply returns the first reply of a typical session of a backend; with > if it is still owed.
func (s *proxyStatus) firstReply(b *api.Backend) string {
	if b.FirstReplyOwedSeconds > 0 {
		return ">" + figures.Seconds(b.FirstReplyOwedSeconds)
	}
	return measuredSeconds(b.FirstReplySeconds)
}
