package top

import (
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// pane is a part of the screen.
type pane int

// The panes, from top to bottom.
const (
	servicesPane pane = iota
	backendsPane
	waitingPane
	sessionsPane
	panes
)

// Limits of the sessions that the proxy is asked for.
const (
	plainLimit    = 200
	filteredLimit = api.MaxEventSessions // a filter looks for few among many
)

// overlay covers the panes.
type overlay int

const (
	noOverlay overlay = iota
	helpOverlay
	detailOverlay
)

// Model is the state of the view. One goroutine uses it.
type Model struct {
	// static
	address string
	style   Style

	width, height int

	// What the proxy has said.
	now, statsAt time.Time
	stats        *api.Stats
	rates        rates
	sessions     api.SessionList
	waiting      api.SessionList
	away         error     // why the proxy does not answer; nil while it does
	awaySince    time.Time // since when

	// What the user has chosen.
	focus   pane
	views   [panes]paneView
	filter  string
	typing  bool // the filter is being typed
	overlay overlay
	detail  detail
	ask     *question // waits for yes or no
	note    string    // what became of the last order
	failed  bool      // the note says that it failed
}

// paneView is what the user has chosen in one pane.
type paneView struct {
	selected string // the key of the row under the cursor; empty until the cursor has moved
	index    int    // where that row was
	offset   int    // rows above the first that is shown
	order    int    // index in the pane's orders
	reverse  bool
}

// question is an order that needs a yes.
type question struct {
	text  string
	order Order
}

// rates are what happened per second between two statistics.
type rates struct {
	known                   bool
	sessions, frames, bytes float64
}

// NewModel returns a model of a proxy that has not answered yet.
func NewModel(address string, style Style) *Model {
	return &Model{address: address, style: style, width: 80, height: 24, focus: sessionsPane}
}

// Resize says how large the terminal is, in columns and lines.
func (m *Model) Resize(width, height int) { m.width, m.height = max(1, width), max(1, height) }

// Update takes news of the proxy.
func (m *Model) Update(u Update) {
	m.now = u.At
	if u.Away != nil {
		if m.away == nil {
			m.awaySince = u.At
		}
		m.away = u.Away
		m.rates = rates{}
		return
	}
	m.away = nil
	if u.Stats != nil {
		diagnosis.DescribeOlder(u.Stats)
		m.rates = ratesBetween(m.stats, u.Stats)
		m.stats, m.statsAt = u.Stats, u.At
	}
	if u.Sessions != nil {
		m.sessions = *u.Sessions
	}
	if u.Waiting != nil {
		m.waiting = *u.Waiting
	}
}

// wholeFleet reports whether several proxies are shown.
func (m *Model) wholeFleet() bool {
	return m.stats != nil && m.stats.Fleet.Shares() && m.stats.Fleet.Whole
}

// ratesBetween returns the rates between two statistics of the same processes. The time between them is that of the proxy that answered.
func ratesBetween(before, after *api.Stats) rates {
	if before == nil || after.UptimeSeconds <= before.UptimeSeconds || !slices.Equal(summed(before.Fleet), summed(after.Fleet)) {
		return rates{}
	}
	seconds := after.UptimeSeconds - before.UptimeSeconds
	frames := func(s *api.Stats) uint64 { return s.Relayed.FramesFromClients + s.Relayed.FramesFromBackends }
	bytes := func(s *api.Stats) uint64 { return s.Relayed.BytesFromClients + s.Relayed.BytesFromBackends }
	since := func(before, after uint64) float64 {
		if after < before { // a process that was started again with a longer life
			return 0
		}
		return float64(after-before) / seconds
	}
	return rates{
		true, since(before.Sessions.Total, after.Sessions.Total), since(frames(before), frames(after)), since(bytes(before), bytes(after)),
	}
}

// summed returns the ids of the proxies whose numbers are added up in statistics; none for those of one proxy.
func summed(f *api.Fleet) (ids []string) {
	if f == nil || !f.Whole {
		return nil
	}
	for i := range f.Proxies {
		if p := &f.Proxies[i]; p.Self || p.Reachable {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Query returns which sessions the proxy is to send.
func (m *Model) Query() api.SessionQuery {
	q := api.SessionQuery{Sort: sessionOrders[m.views[sessionsPane].order].name, Limit: plainLimit}
	for _, word := range strings.Fields(m.filter) {
		q.Limit = filteredLimit
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" || key == "sort" || key == "limit" || key == "state" && value == api.StateEnded {
			continue
		}
		_ = q.Set(key, value) // the panes show whether what was typed so far fits anything
	}
	return q
}

// matches reports whether a row with these fields passes the filter: each word of it is a part of a field, or says key=value.
func (m *Model) matches(fields map[string]string) bool {
	for _, word := range strings.Fields(strings.ToLower(m.filter)) {
		key, value, isPair := strings.Cut(word, "=")
		if isPair {
			have, known := fields[key]
			if known && !strings.HasPrefix(strings.ToLower(have), value) {
				return false
			}
			continue // other panes have no such field
		}
		found := false
		for _, have := range fields {
			found = found || strings.Contains(strings.ToLower(have), word)
		}
		if !found {
			return false
		}
	}
	return true
}

// Done says what became of an order.
func (m *Model) Done(text string, err error) {
	m.note, m.failed = text, err != nil
	if err != nil {
		m.note = err.Error()
	}
}
