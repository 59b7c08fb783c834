package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// smallHeight is the height below which only the pane with the keyboard is shown.
const smallHeight = 20

// View draws the screen: as many lines as the terminal has, none wider than it.
func (m *Model) View() string {
	lines := m.header(max(1, m.height/12))
	room := m.height - len(lines) - 1 // the last line is the footer
	var body []string
	switch {
	case m.overlay == helpOverlay:
		body = m.help()
	case m.overlay == detailOverlay:
		body = m.details(room)
	case m.stats == nil:
		body = []string{"", m.style.paint(quiet, "  waiting for the proxy's first answer")}
	case m.height < smallHeight:
		body = append([]string{m.tabs()}, m.pane(m.focus, room-1, true)...)
	default:
		body = m.allPanes(room)
	}
	body = body[:max(0, min(len(body), room))]
	for len(body) < room {
		body = append(body, "")
	}
	lines = append(append(lines, body...), m.footer())
	lines = lines[:min(len(lines), m.height)]
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, m.style.ellipsis(m.width))
	}
	return strings.Join(lines, "\n")
}

// Text draws everything once, as long as it gets, for a file or another program: problems as a whole, and tenants, if there are some. cure returns
// the commands of a problem's cure so that they can be pasted; their lines are as long as they are.
func (m *Model) Text(mostSessions int, cure func(string) string) string {
	lines, problems := m.headline()
	top := len(lines)
	for i := range problems {
		p := &problems[i]
		const indent = "\n  "
		lines = append(lines, strings.ReplaceAll(ansi.Wrap(m.problem(p, m.style.plain(p.What)), m.width-len(indent)+1, ""), "\n", indent))
		if p.Cure != "" {
			lines = append(lines, "    "+m.style.plain(cure(p.Cure)))
		}
	}
	whole := len(lines) - top // are not cut off
	for p := range panes {
		if p == waitingPane {
			lines = append(lines, m.tenants()...)
		}
		rows := m.rows(p)
		if p == waitingPane && len(rows) == 0 {
			continue
		}
		lines = append(lines, "")
		room := len(rows) + 1
		if p >= waitingPane && mostSessions > 0 {
			room = min(room, mostSessions+1)
		}
		lines = append(lines, m.pane(p, room, false)...)
	}
	for i, line := range lines {
		if i < top || i >= top+whole {
			lines[i] = strings.TrimRight(ansi.Truncate(line, m.width, m.style.ellipsis(m.width)), " ")
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// header says which proxy this is, how busy it is and what is wrong: at most this many findings, a line each.
func (m *Model) header(most int) []string {
	lines, problems := m.headline()
	for i := range problems[:min(most, len(problems))] {
		p := &problems[i]
		lines = append(lines, m.problem(p, m.style.elide(m.style.plain(p.What), max(16, m.width/2)))) // a path must not hide what is wrong with it
	}
	if hidden := len(problems) - most; hidden > 0 {
		more := fmt.Sprintf(" +%d more", hidden)
		last := m.style.fit(lines[len(lines)-1], m.width-len(more), false)
		lines[len(lines)-1] = last + m.style.paint(quiet, more)
	}
	return lines
}

// headline says which proxy this is and how busy it is, and returns the problems to be listed below.
func (m *Model) headline() (lines []string, problems []api.Problem) {
	if m.stats == nil {
		return []string{m.style.paint(strong, "wsbouncer top") + "  " + m.style.plain(m.address), m.connection()}, nil
	}
	s := m.stats
	waiting := 0
	for i := range s.Services {
		waiting += s.Services[i].Queue.Waiting
	}
	wait := figures.Count(float64(waiting)) + " waiting"
	if waiting > 0 {
		wait = m.style.paint(warning, wait)
	}
	first := []string{
		m.style.paint(strong, "wsbouncer "+m.style.plain(s.Version)),
		"up " + figures.Seconds(s.UptimeSeconds),
		m.style.paint(strong, figures.Count(float64(s.Sessions.Active))+" sessions"),
		wait,
	}
	if s.Fleet.Shares() {
		first = append(first, m.style.plain(fleetOf(s.Fleet)))
	}
	if m.rates.known {
		first = append(first,
			figures.Rate(m.rates.sessions)+" new/s", figures.Rate(m.rates.frames)+" msg/s", figures.Bytes(m.rates.bytes)+"/s")
	}
	configuration := "config " + m.style.plain(s.Configuration.Version)
	if s.Configuration.State != "" {
		configuration += " " + s.Configuration.State
	}
	first = append(first, m.style.paint(quiet, configuration))
	if r := s.Replay; r != nil {
		first = append(first, "replay "+figures.Bytes(float64(r.MemoryBytes))+"/"+figures.Bytes(float64(r.LimitBytes)))
	}
	lines = []string{m.joined(first)}
	switch {
	case m.away != nil:
		return append(lines, m.connection()), nil
	case s.Problems == nil:
		return append(lines, m.style.paint(quiet, older)), nil
	case len(s.Problems) == 0:
		return append(lines, m.style.paint(good, "all is well")), nil
	}
	return lines, s.Problems
}

// fleetOf says how much of a fleet is shown: all proxies, those that could be asked, or one.
func fleetOf(f *api.Fleet) string {
	switch all := len(f.Proxies); {
	case f.Whole && len(f.Missing) > 0:
		return fmt.Sprintf("%d of %d proxies", all-len(f.Missing), all)
	case f.Whole:
		return fmt.Sprintf("%d proxies", all)
	default:
		name := "1"
		if self := f.Self(); self != nil {
			name = self.Name
		}
		return fmt.Sprintf("%s of %d proxies", name, all)
	}
}

// joined joins parts of a line, as many as fit.
func (m *Model) joined(parts []string) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if ansi.StringWidth(line)+2+ansi.StringWidth(part) > m.width {
			break
		}
		line += "  " + part
	}
	return line
}

// connection says that the proxy does not answer, or that it has not yet.
func (m *Model) connection() string {
	if m.away == nil {
		return ""
	}
	text := fmt.Sprintf("gone since %s, trying again: %v", m.awaySince.Format(time.TimeOnly), m.away)
	return m.style.paint(bad, m.style.plain(text))
}

// older is what is shown of a proxy that does not report problems.
const older = "this proxy is older, and does not report problems"

// problems returns what is wrong, as the proxy reports it.
func (m *Model) problems() []api.Problem {
	if m.stats == nil {
		return nil
	}
	return m.stats.Problems
}

// problem returns a line about a problem; what is its name, or a part of it.
func (m *Model) problem(p *api.Problem, what string) string {
	mark, t := "! ", bad
	if p.Level == api.LevelWarning {
		mark, t = "- ", warning
	}
	text := p.Text
	if since := figures.Since(p.Since, m.now); since != "" {
		text += " (for " + since + ")"
	}
	return m.style.paint(t, mark+what) + " " + m.style.plain(text)
}

// names of the panes in the tabs of a small screen.
var paneNames = [panes]string{"services", "backends", "waiting", "sessions"}

// tabs is the line that says which panes a small screen has.
func (m *Model) tabs() string {
	var b strings.Builder
	for p := range panes {
		name := paneNames[p]
		if m.width >= 60 {
			name = fmt.Sprintf("%d %s", p+1, name)
		}
		if p == m.focus {
			name = m.style.paint(chosen, name)
		}
		b.WriteString(name + " ")
	}
	return b.String()
}

// tenants draws a table of the tenants below an empty line; nothing if there are none.
func (m *Model) tenants() []string {
	if m.stats == nil || len(m.stats.Tenants) == 0 {
		return nil
	}
	columns := []column{
		{head: fmt.Sprintf("TENANT %d", len(m.stats.Tenants)), flexible: true, least: 10, most: 30, middle: true},
		{head: "SHARE", right: true, priority: 3},
		{head: "SESSIONS", right: true},
		{head: "WAITING", right: true},
		{head: "REFUSED", right: true, priority: 1},
		{head: "SESSIONS SO FAR", right: true, priority: 2},
	}
	heads := row{cells: make([]cell, len(columns))}
	for i := range columns {
		heads.cells[i].text = columns[i].head
	}
	var rows []row
	var note []string
	for i := range m.stats.Tenants {
		t := &m.stats.Tenants[i]
		name := m.style.plain(t.Name)
		if t.Unconfigured {
			name = "(" + name + ")"
			note = []string{m.style.paint(quiet, "In parentheses: not configured, with the share and the limits of 'default'")}
		}
		number := func(n uint64) cell { return cell{text: figures.Count(float64(n))} }
		rows = append(rows, row{t.Name, []cell{
			{text: name},
			{text: strconv.FormatFloat(t.Share, 'g', -1, 64), tone: quiet},
			number(uint64(t.Sessions)), number(uint64(t.Waiting)),
			number(t.Totals.Refused()), number(t.Totals.Sessions),
		}})
	}
	shown, widths := arrange(columns, rows, m.width)
	lines := []string{"", m.style.paint(strong, m.style.line(columns, shown, widths, heads, m.width, false))}
	for _, r := range rows {
		lines = append(lines, m.style.line(columns, shown, widths, r, m.width, false))
	}
	return append(lines, note...)
}

// allPanes draws the panes one below the other. Each gets what it needs, as long as the others have something to show, too.
func (m *Model) allPanes(room int) (lines []string) {
	var need [panes]int
	for p := range panes {
		need[p] = len(m.rows(p)) + 2 // its heads and an empty line
	}
	share := [panes]int{max(5, room/6), max(5, room/3), max(3, room/6), room}
	left := room
	for p := range panes {
		height := min(need[p], share[p], left)
		if p == sessionsPane {
			height = left
		} else if p == m.focus {
			height = min(need[p], max(share[p], room/2), left)
		}
		if height < 2 {
			break
		}
		blank := 1
		if p == sessionsPane {
			blank = 0
		}
		lines = append(lines, m.pane(p, height-blank, p == m.focus)...)
		for range blank {
			lines = append(lines, "")
		}
		left -= height
	}
	return lines
}

// pane draws a pane: its heads and its rows. It fills the height only if it has enough rows.
func (m *Model) pane(p pane, height int, hasKeyboard bool) []string {
	if height < 1 {
		return nil
	}
	rows := m.rows(p)
	v := &m.views[p]
	room := height - 1
	at := -1
	if hasKeyboard && len(rows) > 0 {
		at = v.at(rows)
		v.index = at
	}
	v.offset = max(0, min(v.offset, len(rows)-room))
	if at >= 0 && room > 0 {
		v.offset = max(at-room+1, min(v.offset, at))
	}
	shown := rows[v.offset:min(len(rows), v.offset+max(0, room))]
	columns, shown := m.only(columnsOf(p), shown)
	columns[0].head = m.title(p, len(rows), len(shown))
	order, widths := arrange(columns, shown, m.width)
	heads := row{cells: make([]cell, len(columns))}
	for i, c := range columns {
		heads.cells[i] = cell{text: c.head}
	}
	head := m.style.line(columns, order, widths, heads, m.width, false)
	headTone := strong
	if hasKeyboard {
		headTone = chosen
	}
	lines := []string{m.style.paint(headTone, head)}
	for i, r := range shown {
		lines = append(lines, m.style.line(columns, order, widths, r, m.width, v.offset+i == at))
	}
	return lines
}

// title names a pane and says how many rows it has, and how many of them are not shown.
func (m *Model) title(p pane, rows, shown int) string {
	name := columnsOf(p)[0].head
	total := rows
	if p == sessionsPane && m.filter == "" {
		total = max(rows, m.sessions.Matched-m.waitingInSessions())
	}
	if p == waitingPane && m.filter == "" {
		total = max(rows, m.waiting.Matched)
	}
	if shown < total {
		return fmt.Sprintf("%s %d/%d", name, shown, total)
	}
	return fmt.Sprintf("%s %d", name, total)
}

// waitingInSessions returns how many of the proxy's sessions wait: they have their own pane.
func (m *Model) waitingInSessions() int { return m.waiting.Matched }

// footer is the last line: a question, the filter, what became of the last order, or the keys.
func (m *Model) footer() string {
	switch {
	case m.ask != nil:
		text := m.ask.text
		const answers = "  y/n"
		return m.style.paint(chosen, m.style.fit(m.style.plain(text), min(ansi.StringWidth(text), m.width-len(answers)), false)+answers)
	case m.typing:
		return "filter: " + m.style.plain(m.filter) + m.style.paint(chosen, " ") + m.style.paint(quiet, "  enter, esc; a word, or backend=NAME")
	case m.note != "":
		t := good
		if m.failed {
			t = bad
		}
		return m.style.paint(t, m.style.plain(m.note))
	}
	return m.style.paint(quiet, m.joined(m.keys()))
}

// keys returns what the keys do now, the most useful first: a narrow terminal has no room for all.
func (m *Model) keys() []string {
	p, isOverlay := m.focus, m.overlay != noOverlay
	keys := []string{"q quit", "? help"}
	if isOverlay {
		keys = []string{"esc back"}
	}
	if m.overlay == detailOverlay {
		p = m.detail.pane
	}
	if m.overlay != helpOverlay {
		keys = append(keys, map[pane][]string{
			servicesPane: {"p pause/resume"}, backendsPane: {"d drain", "e enable"}, waitingPane: {"k kill"}, sessionsPane: {"k kill"},
		}[p]...)
	}
	switch {
	case m.overlay == detailOverlay && p < waitingPane:
		keys = append(keys, "s its sessions")
	case !isOverlay && m.filter != "":
		keys = append(keys, "esc clear filter: "+m.style.plain(m.filter))
	case !isOverlay:
		keys = append(keys, "/ filter")
	}
	if !isOverlay {
		keys = append(keys, "tab pane", "enter details", "s sort: "+ordersOf(p)[m.orderOf(p)].name)
	}
	return keys
}

// help explains the keys and the screen.
func (m *Model) help() []string {
	leased, resetting, idle, other := "█", "▓", "▒", "░"
	if m.style.ASCII {
		leased, resetting, idle, other = "#", "%", "=", "-"
	}
	lines := []string{
		"",
		"  q        quit                    ?      this help",
		"  tab 1-4  next pane, pane 1 to 4  enter  details",
		"  arrows   move the cursor         esc    back, clear the filter",
		"  s S      next order, previous    r      reverse the order",
		"  /        filter: words, or key=value: service, backend,",
		"           client, tenant, state",
		"  k        end the session         p      pause or resume the service",
		"  d        drain the backend       e      enable the backend",
		"",
		"  bars: " + m.style.paint(busy, leased) + " leased  " + m.style.paint(warning, resetting) + " resetting  " +
			m.style.paint(good, idle) + " idle  " + m.style.paint(quiet, other) + " opening or closing",
		"  REPLY: client's first message to the backend's first",
		"  LAG: age of the oldest audio or message without an answer",
	}
	if m.width >= 60 {
		return lines
	}
	return []string{
		"q quit  tab next pane  enter details", "s order  r reverse  / filter  esc back", "k end session   p pause/resume", "d drain         e enable",
		"bar: " + m.style.paint(busy, leased) + " leased " + m.style.paint(warning, resetting) + " reset " + m.style.paint(good, idle) + " idle " + m.style.paint(quiet, other) + " other",
		"REPLY: first message to first answer", "LAG: oldest unanswered",
	}
}
