package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// detail is what is shown about one service, backend or session.
type detail struct {
	pane    pane
	key     string
	offset  int
	session *api.SessionDetail // nil until it has come
	err     error              // why it does not come
}

// field is a line of the details.
type field struct {
	name, value string
	tone        tone
}

// Detail takes the details of a session that an order asked for.
func (m *Model) Detail(id string, s *api.SessionDetail, err error) {
	if m.overlay != detailOverlay || m.detail.key != id { // the user has gone on
		return
	}
	if m.detail.err = err; err == nil {
		m.detail.session = s
	}
}

// Following returns the id of the session whose details are shown; empty for none. They are to be fetched again and again.
func (m *Model) Following() string {
	if m.overlay == detailOverlay && (m.detail.pane == sessionsPane || m.detail.pane == waitingPane) && m.away == nil {
		return m.detail.key
	}
	return ""
}

// details draws the details.
func (m *Model) details(room int) []string {
	kind := [panes]string{"service", "backend", "session", "session"}[m.detail.pane]
	lines := []string{m.style.paint(chosen, m.style.fit(kind+" "+m.style.plain(m.detail.key), m.width, false))}
	fields := m.detailFields()
	width := 0
	for _, f := range fields {
		width = max(width, len(f.name))
	}
	var body []string
	for _, f := range fields {
		name := m.style.paint(quiet, m.style.fit(f.name, width, false))
		for line := range strings.SplitSeq(ansi.Wrap(m.style.plain(f.value), max(1, m.width-width-2), " "), "\n") {
			body = append(body, name+"  "+m.style.paint(f.tone, line))
			name = strings.Repeat(" ", width)
		}
	}
	m.detail.offset = max(0, min(m.detail.offset, len(body)-max(1, room-1)))
	lines = append(lines, body[m.detail.offset:]...)
	return lines
}

func (m *Model) detailFields() []field {
	switch m.detail.pane {
	case servicesPane:
		return m.serviceFields(m.stats.Service(m.detail.key))
	case backendsPane:
		return m.backendFields(m.stats.Backend(m.detail.key))
	}
	switch {
	case m.detail.session != nil:
		fields := m.sessionFields(m.detail.session)
		if m.detail.err != nil {
			fields = append([]field{{"now", m.detail.err.Error(), bad}}, fields...)
		}
		return fields
	case m.detail.err != nil:
		return []field{{"", m.detail.err.Error(), bad}}
	}
	return []field{{"", "...", quiet}}
}

func (m *Model) serviceFields(s *api.Service) []field {
	if s == nil {
		return []field{{"", "The service was removed.", warning}}
	}
	state := m.conditionCell(&s.Condition)
	q := &s.Queue
	orAny := func(text string) string {
		if text == "" {
			return "any"
		}
		return text
	}
	return []field{
		{"state", state.text, state.tone},
		{"path", orAny(s.Path), normal},
		{"host", orAny(s.Host), normal},
		{"profile", s.Profile, normal},
		{"balance", s.Balance, normal},
		{"utilisation", fmt.Sprintf("%.0f%% of the places that take sessions now", 100*s.Utilisation), normal},
		{"failover", failoverOf(s.Failover), normal},
		{"waiting", fmt.Sprintf("%d of at most %d, the first for %s", q.Waiting, q.Limit, figures.Seconds(q.OldestSeconds)), normal},
		{"since its start", fmt.Sprintf("%d queued: %d served, %d timed out, %d left, %d turned away, %d refused; %d found the queue full",
			q.Totals.Queued, q.Totals.Served, q.Totals.TimedOut, q.Totals.Left, q.Totals.TurnedAway, q.Totals.Refused, q.Totals.Full), normal},
	}
}

func (m *Model) backendFields(b *api.Backend) []field {
	if b == nil {
		return []field{{"", "The backend was removed.", warning}}
	}
	health := m.conditionCell(&b.Condition)
	fields := []field{
		{"health", health.text, health.tone},
		{"service", b.Service, normal},
		{"url", b.URL, normal},
		{"profile", b.Profile, normal},
		{"state", b.State, normal},
		{"connections", fmt.Sprintf("%d leased, %d resetting, %d idle, %d dialing, %d retiring; cap %d, ceiling %d, warm %d",
			b.Leased, b.Resetting, b.Idle, b.Dialing, b.Retiring, b.Cap, b.Ceiling, b.Warm), normal},
		{"weight", fmt.Sprintf("%g, of which %.0f%% count now", b.Weight, 100*b.Ramp), normal},
		{"first reply", fmt.Sprintf("%s lately (%s)", m.firstReply(b), figures.Plural(b.FirstReplies, "session")), normal},
		{"ping", dash(b.RoundTripSeconds), normal},
		{"circuit", withReason(b.Circuit, b.CircuitSince, b.CircuitReason, m.now) + fmt.Sprintf("; opened %s", figures.Plural(int(b.CircuitOpened), "time")), normal},
		{"probe", withReason(b.Probe, b.ProbeSince, b.ProbeReason, m.now), normal},
	}
	if b.Calibrated > 0 {
		fields = append(fields, field{"calibrated", figures.Plural(b.Calibrated, "stream"), normal})
	}
	if b.CeilingCause != "" {
		fields = append(fields, field{"ceiling", withReason(b.CeilingCause, b.CeilingSince, b.CeilingReason, m.now), warning})
	}
	if published := diagnosis.Published(b, m.now); published != "" {
		fields = append(fields, field{"published", published, normal})
	}
	if places := diagnosis.Places(b); places != "" && m.stats.Fleet.Shares() {
		fields = append(fields, field{"places", places, normal})
	}
	fields = append(fields, outliveFields(b, m.now)...)
	fields = append(fields, []field{
		{"reachable", withReason(map[bool]string{true: "yes", false: "no"}[b.Reachable], b.Since, b.Reason, m.now), normal},
		{"outlier", fmt.Sprintf("%s; %s", withReason(map[bool]string{true: "yes", false: "no"}[b.Outlier], b.OutlierSince, b.OutlierReason, m.now),
			figures.Plural(int(b.Outliers), "time")), normal},
		{"sessions broken", fmt.Sprint(b.Broken), normal},
		{"dials", fmt.Sprintf("%d, %d failed, %d refused", b.Totals.Dialed, b.Totals.DialFailed, b.Totals.Refused), normal},
		{"leases", fmt.Sprintf("%d: %d returned, %d discarded", b.Totals.Leased, b.Totals.Returned, b.Totals.Discarded), normal},
	}...)
	if b.DiscoveredFrom != "" {
		fields = append(fields, field{"discovered", "for the backend " + b.DiscoveredFrom, normal})
	}
	var retired []string
	for _, reason := range slices.Sorted(maps.Keys(b.Totals.Reasons)) {
		retired = append(retired, fmt.Sprintf("%s %d", reason, b.Totals.Reasons[reason]))
	}
	if len(retired) > 0 {
		fields = append(fields, field{"retired", strings.Join(retired, ", "), normal})
	}
	return fields
}

// withReason says a state, since when and why.
func withReason(state string, since time.Time, why string, now time.Time) string {
	if ago := figures.Since(since, now); ago != "" {
		state += " for " + ago
	}
	if why != "" {
		state += ": " + why
	}
	return state
}

func (m *Model) sessionFields(s *api.SessionDetail) []field {
	var fields []field
	add := func(name, value string, t tone) {
		if value != "" {
			fields = append(fields, field{name, value, t})
		}
	}
	state := normal
	if s.State == api.StateEnded {
		state = warning
	}
	add("state", s.State, state)
	if s.By != "" {
		how := "how it ends" // its end may be decided before it has come
		if s.State == api.StateEnded {
			how = "how it ended"
		}
		end := "by the " + s.By
		if s.Code != 0 {
			end += fmt.Sprintf(", code %d", s.Code)
		}
		if s.Reason != "" {
			end += ": " + s.Reason
		}
		add(how, end, warning)
	}
	add("connection then", s.Fate, normal)
	add("service", s.Service+" "+s.Path, normal)
	add("backend", s.Backend, normal)
	add("proxy", s.Proxy, normal)
	add("client", s.Client, normal)
	add("peer", s.Peer, normal)
	add("tenant", s.Tenant, normal)
	add("subject", s.Subject, normal)
	add("authenticated by", s.Auth, normal)
	add("key", s.Key, normal)
	add("request id", s.RequestID, normal)
	add("trace id", s.TraceID, normal)
	add("started", s.Started.UTC().Format(time.RFC3339)+", "+figures.Seconds(s.AgeSeconds)+" ago", normal)
	add("waited", figures.Seconds(s.WaitedSeconds), normal)
	if q := s.Queue; q != nil {
		add("queue", fmt.Sprintf("place %d of %d, gives up in %s", q.Place, q.Waiting, figures.Seconds(q.TimeoutSeconds)), warning)
	}
	add("from client", figures.Plural(int(s.FramesFromClient), "frame")+", "+figures.Bytes(float64(s.BytesFromClient)), normal)
	add("from backend", figures.Plural(int(s.FramesFromBackend), "frame")+", "+figures.Bytes(float64(s.BytesFromBackend)), normal)
	add("first reply", firstReply(&s.Session), normal)
	add("lag", dash(s.LagSeconds), lagTone(s.OwedSeconds))
	if s.Paused {
		add("paused", "the backend has not taken "+figures.Bytes(float64(s.PendingToBackend)), warning)
	}
	if s.BackendPaused {
		add("paused", "the client has not taken "+figures.Bytes(float64(s.PendingToClient)), warning)
	}
	if h := s.HeldBack; h != nil {
		add("held back", h.Limit, warning)
	}
	if s.Moves > 0 {
		add("not served by", figures.Plural(s.Moves, "connection"), normal)
	}
	fields = append(fields, failoverFields(s)...)
	if c := s.Server; c != nil {
		add("connection", fmt.Sprintf("%s, %s, %s old, session %d on it, ping %s", c.ID, c.State, figures.Seconds(c.AgeSeconds), c.Sessions, dash(c.RoundTripSeconds)), normal)
		add("profile", strings.TrimSpace(s.Profile+" "+c.Boundary), normal)
		add("subprotocol", c.Subprotocol, normal)
	}
	for i := range s.Before {
		b := &s.Before[i]
		add("before it", fmt.Sprintf("%s of %s, %s, ended by the %s (%d)", b.ID, b.Client, figures.Seconds(b.AgeSeconds), b.By, b.Code), quiet)
	}
	if s.Taps > 0 {
		add("taps", figures.Plural(s.Taps, "operator")+" watching", warning)
	}
	return fields
}

// failoverOf says what becomes of a service's sessions whose backend fails.
func failoverOf(f *api.ServiceFailover) string {
	if f == nil || f.Mode != "replay" {
		return "off"
	}
	return fmt.Sprintf("replay, %s: %s moved, %d could not", f.Verdict, figures.Plural(int(f.Moved), "session"), f.NotMoved)
}

// outliveFields says how a backend keeps up, and how many sessions left it for another one; nothing that does not concern it.
func outliveFields(b *api.Backend, now time.Time) (fields []field) {
	if b.Canary != "" && b.Canary != "off" {
		text, t := withReason(b.Canary, b.CanarySince, b.CanaryReason, now), normal
		if b.CanarySeconds > 0 {
			text += "; last first result in " + figures.Seconds(b.CanarySeconds)
		}
		if b.Canary == "down" {
			t = bad
		}
		fields = append(fields, field{"canary", text, t})
	}
	if b.LagSeconds > 0 {
		fields = append(fields, field{"lag", fmt.Sprintf("%s (median %s)", figures.Seconds(b.LagSeconds), dash(b.MedianLagSeconds)), lagTone(b.OwedSeconds)})
	}
	if b.LatenessSeconds > 0 {
		fields = append(fields, field{"lateness", figures.Seconds(b.LatenessSeconds) + " for 95% of its sessions", normal})
	}
	if b.Stalls > 0 {
		fields = append(fields, field{"stalls", fmt.Sprint(b.Stalls), warning})
	}
	if b.Moved+b.NotMoved > 0 {
		fields = append(fields, field{"moved", fmt.Sprintf("%s to other backends, %d could not", figures.Plural(int(b.Moved), "session"), b.NotMoved), normal})
	}
	return fields
}

// failoverFields shows how another backend could continue a session, and each time that one did.
func failoverFields(s *api.SessionDetail) (fields []field) {
	f := s.Failover
	if f == nil {
		if s.Failovers > 0 {
			fields = append(fields, field{"moved", figures.Plural(s.Failovers, "time") + " to another backend", normal})
		}
		return fields
	}
	if f.Assured {
		fields = append(fields, field{"assured", "yes, " + figures.Bytes(float64(f.KeptBytes)) + " kept", normal})
	} else {
		fields = append(fields, field{"assured", "no: " + f.Why, warning})
	}
	if f.AudioSeconds > 0 {
		fields = append(fields, field{"audio", fmt.Sprintf("%.1f s, answered up to %.1f s", f.AudioSeconds, f.AnsweredSeconds), normal})
	}
	for i := range f.Moves {
		v := &f.Moves[i]
		fields = append(fields, field{"moved", fmt.Sprintf("%s, %s to %s: %s, %.1f s replayed, took %s",
			v.Time.UTC().Format(time.TimeOnly), v.From, v.To, v.Cause, v.ReplayedSeconds, dash(v.TookSeconds)), normal})
	}
	return fields
}
