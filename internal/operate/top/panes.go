package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// order is a way to sort a pane.
type order struct {
	name string
	less func(m *Model, a, b *item) int
}

// item is a row with what it is sorted by.
type item struct {
	row
	service *api.Service
	backend *api.Backend
	session *api.Session
}

var serviceOrders = []order{
	{"configured", func(*Model, *item, *item) int { return 0 }},
	{"waiting", func(_ *Model, a, b *item) int { return cmp.Compare(b.service.Queue.Waiting, a.service.Queue.Waiting) }},
	{"utilisation", func(_ *Model, a, b *item) int { return cmp.Compare(b.service.Utilisation, a.service.Utilisation) }},
	{"name", func(_ *Model, a, b *item) int { return cmp.Compare(a.service.Name, b.service.Name) }},
}

var backendOrders = []order{
	{"configured", func(*Model, *item, *item) int { return 0 }},
	{"trouble", func(_ *Model, a, b *item) int { return cmp.Compare(trouble(b.backend), trouble(a.backend)) }},
	{"leased", func(_ *Model, a, b *item) int { return cmp.Compare(share(b.backend), share(a.backend)) }},
	{"reply", func(_ *Model, a, b *item) int {
		return cmp.Compare(b.backend.FirstReplySeconds, a.backend.FirstReplySeconds)
	}},
	{"name", func(_ *Model, a, b *item) int { return cmp.Compare(a.backend.Name, b.backend.Name) }},
}

var waitingOrders = []order{
	{"waited", func(_ *Model, a, b *item) int { return cmp.Compare(b.session.WaitedSeconds, a.session.WaitedSeconds) }},
	{"place", func(_ *Model, a, b *item) int { return cmp.Compare(a.session.Place, b.session.Place) }},
}

// sessionOrders have the names that the proxy knows, since it chooses which sessions it sends.
var sessionOrders = []order{
	{"lag", func(_ *Model, a, b *item) int { return cmp.Compare(b.session.LagSeconds, a.session.LagSeconds) }}, // those of a hung backend first
	{"rate", func(_ *Model, a, b *item) int {
		return cmp.Compare(b.session.FramesPerSecond, a.session.FramesPerSecond)
	}},
	{"age", func(_ *Model, a, b *item) int { return cmp.Compare(b.session.AgeSeconds, a.session.AgeSeconds) }},
	{"bytes", func(_ *Model, a, b *item) int { return cmp.Compare(bytesOf(b.session), bytesOf(a.session)) }},
	{"waited", func(_ *Model, a, b *item) int { return cmp.Compare(b.session.WaitedSeconds, a.session.WaitedSeconds) }},
	{"backend", func(_ *Model, a, b *item) int { return cmp.Compare(a.session.Backend, b.session.Backend) }},
	{"client", func(_ *Model, a, b *item) int { return cmp.Compare(a.session.Client, b.session.Client) }},
}

func ordersOf(p pane) []order {
	return [...][]order{serviceOrders, backendOrders, waitingOrders, sessionOrders}[p]
}

// trouble is how much is wrong with a backend: 2 if it fails, 1 if an operator took it out of service.
func trouble(b *api.Backend) int {
	switch {
	case b.State != "enabled":
		return 1
	case b.Condition.Level != api.LevelOK:
		return 2
	}
	return 0
}

// share is the part of a backend's cap that sessions use.
func share(b *api.Backend) float64 { return float64(b.Leased) / float64(max(1, b.Cap)) }

func bytesOf(s *api.Session) uint64 { return s.BytesFromClient + s.BytesFromBackend }

// columnsOf returns the columns of a pane. The first head names the pane.
func columnsOf(p pane) []column {
	switch p {
	case servicesPane:
		return []column{
			{head: "SERVICE", flexible: true, least: 8, most: 30, middle: true},
			{head: "WAIT", right: true},
			{head: "LONGEST", right: true, priority: 1},
			{head: "UTILISATION", right: true},
			{head: "QUEUED", right: true, priority: 4},
			{head: "TIMED OUT", right: true, priority: 5},
			{head: "FULL", right: true, priority: 6},
			{head: "EVICTED", right: true, priority: 7},
			{head: "STATE", priority: 2, flexible: true, least: 6, rest: true},
		}
	case backendsPane:
		return []column{
			{head: "BACKEND", flexible: true, least: 10, most: 24, middle: true},
			{head: "SERVICE", priority: 6, flexible: true, least: 6, most: 16},
			{head: "LOAD", flexible: true, least: 6, most: 24, priority: 1, bar: true},
			{head: "LEASED", right: true},
			{head: "IDLE", right: true, priority: 5},
			{head: "REPLY", right: true, priority: 2},
			{head: "PING", right: true, priority: 7},
			{head: "HEALTH", flexible: true, least: 8, most: 24, rest: true},
		}
	case waitingPane:
		return []column{
			{head: "WAITING", most: 24, middle: true}, // a whole id, which can be pasted
			{head: "SERVICE", priority: 3, flexible: true, least: 6, most: 16},
			{head: "PLACE", right: true},
			{head: "WAITED", right: true},
			{head: "PROXY", flexible: true, least: 7, most: 16, priority: 2, middle: true, fleet: true},
			{head: "CLIENT", flexible: true, least: 7, priority: 1, rest: true},
		}
	}
	return []column{
		{head: "SESSION", most: 24, middle: true},
		{head: "SERVICE", priority: 7, flexible: true, least: 6, most: 16},
		{head: "BACKEND", flexible: true, least: 7, most: 20, priority: 1, middle: true},
		{head: "AGE", right: true, priority: 2},
		{head: "MSG/S", right: true, streamed: true},
		{head: "LAG", right: true, priority: 3},
		{head: "REPLY", right: true, priority: 6},
		{head: "IN", right: true, priority: 8},
		{head: "OUT", right: true, priority: 9},
		{head: "STATE", priority: 5},
		{head: "PROXY", flexible: true, least: 7, most: 16, priority: 2, middle: true, fleet: true},
		{head: "CLIENT", flexible: true, least: 9, priority: 4, rest: true},
	}
}

// orderOf returns the index of a pane's order: age in place of one that is missing.
func (m *Model) orderOf(p pane) int {
	at := m.views[p].order
	if m.isMissing(p, at) {
		at = slices.IndexFunc(ordersOf(p), func(o order) bool { return o.name == "age" })
	}
	return at
}

// isMissing reports whether a pane cannot be sorted so at present: sessions of a whole fleet have no rates.
func (m *Model) isMissing(p pane, order int) bool {
	name := ordersOf(p)[order].name
	return p == sessionsPane && m.wholeFleet() && name == "rate"
}

// only leaves out the columns that are not for what is shown: one proxy, or a whole fleet.
func (m *Model) only(columns []column, rows []row) ([]column, []row) {
	whole := m.wholeFleet()
	var keep []int
	for i, c := range columns {
		if whole && !c.streamed || !whole && !c.fleet {
			keep = append(keep, i)
		}
	}
	if len(keep) == len(columns) {
		return columns, rows
	}
	kept, left := make([]column, len(keep)), make([]row, len(rows))
	for i, at := range keep {
		kept[i] = columns[at]
	}
	for r := range rows {
		left[r] = row{rows[r].key, make([]cell, len(keep))}
		for i, at := range keep {
			left[r].cells[i] = rows[r].cells[at]
		}
	}
	return kept, left
}

// rows returns the rows of a pane: those that pass the filter, in the chosen order.
func (m *Model) rows(p pane) []row {
	items := m.items(p)
	v := &m.views[p]
	less := ordersOf(p)[m.orderOf(p)].less
	slices.SortStableFunc(items, func(a, b item) int { return less(m, &a, &b) })
	if v.reverse {
		slices.Reverse(items)
	}
	rows := make([]row, len(items))
	for i := range items {
		rows[i] = items[i].row
	}
	return rows
}

func (m *Model) items(p pane) (items []item) {
	if m.stats == nil {
		return nil
	}
	switch p {
	case servicesPane:
		for i := range m.stats.Services {
			s := &m.stats.Services[i]
			if m.matches(map[string]string{"service": s.Name}) {
				items = append(items, item{row: row{s.Name, m.serviceCells(s)}, service: s})
			}
		}
	case backendsPane:
		for i := range m.stats.Backends {
			b := &m.stats.Backends[i]
			if m.matches(map[string]string{"service": b.Service, "backend": b.Name}) {
				items = append(items, item{row: row{b.Name, m.backendCells(b)}, backend: b})
			}
		}
	case waitingPane:
		for i := range m.waiting.Sessions {
			if s := &m.waiting.Sessions[i]; m.matches(fieldsOf(s)) {
				items = append(items, item{row: row{s.ID, m.waitingCells(s)}, session: s})
			}
		}
	case sessionsPane:
		for i := range m.sessions.Sessions {
			if s := &m.sessions.Sessions[i]; s.State != api.StateWaiting && m.matches(fieldsOf(s)) {
				items = append(items, item{row: row{s.ID, m.sessionCells(s)}, session: s})
			}
		}
	}
	return items
}

// fieldsOf returns what the filter looks at.
func fieldsOf(s *api.Session) map[string]string {
	return map[string]string{
		"id": s.ID, "service": s.Service, "backend": s.Backend, "client": s.Client, "peer": s.Peer, "tenant": s.Tenant, "state": s.State, "request": s.RequestID,
		"proxy": s.Proxy,
	}
}

func (m *Model) serviceCells(s *api.Service) []cell {
	waits, used := normal, normal
	if s.Queue.Waiting > 0 {
		waits = warning
	}
	if s.Queue.Waiting > 0 && s.Queue.Waiting >= s.Queue.Limit {
		waits = bad
	}
	if s.Utilisation >= 1 {
		used = warning
	}
	state := m.conditionCell(&api.Condition{Word: s.Condition.Word, Level: s.Condition.Level, Since: s.Condition.Since}) // the line of the problem has the rest
	q := &s.Queue.Totals
	lost := func(n uint64) cell {
		if n > 0 {
			return cell{text: figures.Count(float64(n)), tone: warning}
		}
		return cell{text: "0", tone: quiet}
	}
	return []cell{
		{text: m.style.plain(s.Name)},
		{text: strconv.Itoa(s.Queue.Waiting), tone: waits},
		{text: dash(s.Queue.OldestSeconds), tone: waits},
		{text: fmt.Sprintf("%.0f%%", 100*s.Utilisation), tone: used},
		{text: figures.Count(float64(q.Queued)), tone: quiet},
		lost(q.TimedOut),
		lost(q.Full),
		lost(q.Evicted),
		state,
	}
}

func (m *Model) backendCells(b *api.Backend) []cell {
	health, reply := m.conditionCell(&b.Condition), normal
	if slices.ContainsFunc(m.problems(), func(p api.Problem) bool {
		return p.Kind == string(diagnosis.BackendSlow) && p.Service == b.Service && p.Backend == b.Name
	}) {
		reply = warning
	}
	return []cell{
		{text: m.style.plain(b.Name)},
		{text: m.style.plain(b.Service), tone: quiet},
		{drawn: func(width int) string { return m.style.bar(width, b.Cap, segmentsOf(b)) }},
		{text: fmt.Sprintf("%d/%d", b.Leased, b.Cap)},
		{text: strconv.Itoa(b.Idle), tone: quiet},
		{text: m.firstReply(b), tone: reply},
		{text: dash(b.RoundTripSeconds), tone: quiet},
		health,
	}
}

// segmentsOf returns what a backend's bar is made of.
func segmentsOf(b *api.Backend) []segment {
	return []segment{
		{b.Leased, busy, "█", "#"},
		{b.Resetting, warning, "▓", "%"},
		{b.Idle, good, "▒", "="},
		{b.Dialing + b.Retiring, quiet, "░", "-"},
	}
}

// conditionCell says in a cell how a service or backend is, since when and why.
func (m *Model) conditionCell(c *api.Condition) cell {
	text := c.Word
	if c.Level == api.LevelOK {
		if c.Why != "" {
			text += ": " + c.Why
		}
		return cell{text: text, tone: good}
	}
	if since := figures.Since(c.Since, m.now); since != "" {
		text += " " + since
	}
	if c.Why != "" {
		text += ": " + c.Why
	}
	t := bad
	if c.Level != api.LevelFailure {
		t = warning
	}
	return cell{text: m.style.plain(text), tone: t}
}

func (m *Model) waitingCells(s *api.Session) []cell {
	return []cell{
		{text: m.style.plain(s.ID)},
		{text: m.style.plain(s.Service), tone: quiet},
		{text: strconv.Itoa(s.Place)},
		{text: figures.Seconds(s.WaitedSeconds), tone: warning},
		{text: m.style.plain(s.Proxy), tone: quiet},
		{text: m.style.plain(s.Client)},
	}
}

// lagTone warns about a backend that owes a result for so long that a user notices.
func lagTone(seconds float64) tone {
	switch {
	case seconds >= 10:
		return bad
	case seconds >= 3:
		return warning
	}
	return normal
}

func (m *Model) sessionCells(s *api.Session) []cell {
	state := normal
	if s.State == api.StateRelaying {
		state = quiet
	}
	return []cell{
		{text: m.style.plain(s.ID)},
		{text: m.style.plain(s.Service), tone: quiet},
		{text: m.style.plain(cmp.Or(s.Backend, "-"))},
		{text: figures.Seconds(s.AgeSeconds)},
		{text: figures.Rate(s.FramesPerSecond)},
		{text: dash(s.LagSeconds), tone: lagTone(s.OwedSeconds)},
		{text: firstReply(s)},
		{text: figures.Bytes(float64(s.BytesFromClient)), tone: quiet},
		{text: figures.Bytes(float64(s.BytesFromBackend)), tone: quiet},
		{text: s.State, tone: state},
		{text: m.style.plain(s.Proxy), tone: quiet},
		{text: m.style.plain(s.Client), tone: quiet},
	}
}

// firstReply returns how long the first reply took; with > if it is still owed.
func firstReply(s *api.Session) string {
	if s.FirstReplyOwed {
		return ">" + figures.Seconds(s.FirstReplySeconds)
	}
	return dash(s.FirstReplySeconds)
}

// firstReply returns the first reply of a typical session of a backend; with > if it is still owed.
func (m *Model) firstReply(b *api.Backend) string {
	if b.FirstReplyOwedSeconds > 0 {
		return ">" + figures.Seconds(b.FirstReplyOwedSeconds)
	}
	return dash(b.FirstReplySeconds)
}

// dash returns a duration; a dash if nothing was measured.
func dash(seconds float64) string {
	if seconds <= 0 {
		return "-"
	}
	return figures.Seconds(seconds)
}
