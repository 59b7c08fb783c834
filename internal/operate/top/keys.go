package top

import (
	"fmt"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Key takes a key, by its name: "a", "/", "enter", "esc", "up", "ctrl+c". It returns what is to be done.
func (m *Model) Key(key string) Order {
	switch {
	case key == "ctrl+c":
		return Order{Verb: Quit}
	case key == "ctrl+z":
		return Order{Verb: Suspend}
	case m.ask != nil:
		return m.answer(key)
	case m.typing:
		return m.typeFilter(key)
	}
	m.note = ""
	if m.overlay != noOverlay {
		return m.keyInOverlay(key)
	}
	switch key {
	case "q":
		return Order{Verb: Quit}
	case "?", "h":
		m.overlay = helpOverlay
	case "tab", "right":
		m.focus = (m.focus + 1) % panes
	case "shift+tab", "left":
		m.focus = (m.focus + panes - 1) % panes
	case "1", "2", "3", "4":
		m.focus = pane(key[0] - '1')
	case "up", "down", "pgup", "pgdown", "home", "end", "g", "G":
		m.move(key)
	case "s":
		return m.sortBy(1)
	case "S":
		return m.sortBy(-1)
	case "r":
		m.views[m.focus].reverse = !m.views[m.focus].reverse
	case "/":
		m.typing = true
	case "esc":
		if m.filter != "" {
			m.filter = ""
			return Order{Verb: Watch}
		}
	case "enter":
		return m.open()
	case "d", "e", "k", "p":
		return m.act(key)
	}
	return Order{}
}

func (m *Model) keyInOverlay(key string) Order {
	switch key {
	case "esc", "enter", "q", "?", "h", "backspace", "left":
		m.overlay = noOverlay
	case "up":
		m.detail.offset = max(0, m.detail.offset-1)
	case "down":
		m.detail.offset++
	case "d", "e", "k", "p":
		if m.overlay == detailOverlay {
			return m.act(key)
		}
	case "s":
		if m.overlay == detailOverlay && m.detail.pane != sessionsPane && m.detail.pane != waitingPane {
			field := "backend="
			if m.detail.pane == servicesPane {
				field = "service="
			}
			m.filter, m.focus, m.overlay = field+m.detail.key, sessionsPane, noOverlay
			return Order{Verb: Watch}
		}
	}
	return Order{}
}

// typeFilter takes a key while the filter is being typed. The proxy is asked only when it is complete.
func (m *Model) typeFilter(key string) Order {
	switch key {
	case "enter":
		m.typing = false
		return Order{Verb: Watch}
	case "esc":
		m.typing, m.filter = false, ""
		return Order{Verb: Watch}
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case "ctrl+u":
		m.filter = ""
	case "space":
		m.filter += " "
	default:
		const most = 100
		if utf8.RuneCountInString(key) == 1 && len(m.filter) < most {
			m.filter += key
		}
	}
	return Order{}
}

// answer takes the answer to a question: y does it, anything else does not.
func (m *Model) answer(key string) Order {
	q := m.ask
	m.ask = nil
	if key == "y" || key == "Y" {
		m.note, m.failed = "...", false
		return q.order
	}
	m.note, m.failed = "Nothing was done.", false
	return Order{}
}

// sortBy chooses the next order of the pane, or the one before.
func (m *Model) sortBy(step int) Order {
	orders := ordersOf(m.focus)
	next := m.orderOf(m.focus)
	for {
		next = (next + step + len(orders)) % len(orders)
		if !m.isMissing(m.focus, next) {
			break
		}
	}
	v := &m.views[m.focus]
	v.order, v.reverse, v.offset = next, false, 0
	if m.focus == sessionsPane {
		return Order{Verb: Watch}
	}
	return Order{}
}

// move moves the cursor of the pane.
func (m *Model) move(key string) {
	rows := m.rows(m.focus)
	if len(rows) == 0 {
		return
	}
	v := &m.views[m.focus]
	at := v.at(rows)
	page := max(1, m.height/2)
	switch key {
	case "up":
		at--
	case "down":
		at++
	case "pgup":
		at -= page
	case "pgdown":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = len(rows) - 1
	}
	v.index = max(0, min(at, len(rows)-1))
	v.selected = rows[v.index].key
}

// at returns where the cursor is among rows, of which there is at least one. It stays on its row, wherever that goes; if the row is
// gone, it stays where it is.
func (v *paneView) at(rows []row) int {
	for i := range rows {
		if rows[i].key == v.selected {
			return i
		}
	}
	return max(0, min(v.index, len(rows)-1))
}

// current returns the pane and the key of the row that an action is about: that of the details, or the one under the cursor.
func (m *Model) current() (pane, string) {
	if m.overlay == detailOverlay {
		return m.detail.pane, m.detail.key
	}
	rows := m.rows(m.focus)
	if len(rows) == 0 {
		return m.focus, ""
	}
	return m.focus, rows[m.views[m.focus].at(rows)].key
}

// open shows the details of the row under the cursor.
func (m *Model) open() Order {
	p, key := m.current()
	if key == "" {
		return Order{}
	}
	m.overlay, m.detail = detailOverlay, detail{pane: p, key: key}
	if p == sessionsPane || p == waitingPane {
		return Order{Show, key}
	}
	return Order{}
}

// act asks whether to do what a key stands for, or does it where that harms no session.
func (m *Model) act(key string) Order {
	p, target := m.current()
	if target == "" {
		return Order{}
	}
	wrong := func(what, where string) Order {
		m.note, m.failed = fmt.Sprintf("%s: choose a %s first", what, where), true
		return Order{}
	}
	if m.away != nil {
		m.note, m.failed = "the proxy does not answer", true
		return Order{}
	}
	switch key {
	case "k":
		if p != sessionsPane && p != waitingPane {
			return wrong("kill", "session")
		}
		m.ask = &question{"End session " + target + m.about(target) + "?", Order{Kill, target}}
	case "d", "e":
		if p != backendsPane {
			return wrong(map[string]string{"d": "drain", "e": "enable"}[key], "backend")
		}
		b := m.stats.Backend(target)
		if b == nil {
			m.note, m.failed = "the backend "+target+" was removed", true
			return Order{}
		}
		if key == "e" {
			m.note, m.failed = "...", false
			return Order{Enable, target}
		}
		m.ask = &question{fmt.Sprintf("Drain %s: no new clients, %s continue?", target, figures.Plural(b.Leased, "session")), Order{Drain, target}}
	case "p":
		if p != servicesPane {
			return wrong("pause", "service")
		}
		if s := m.stats.Service(target); s != nil && s.Paused {
			m.note, m.failed = "...", false
			return Order{Resume, target}
		}
		m.ask = &question{"Pause " + target + ": new clients wait until you resume it?", Order{Pause, target}}
	}
	return Order{}
}

// about says in a few words which session an id is.
func (m *Model) about(id string) string {
	for _, list := range [][]api.Session{m.sessions.Sessions, m.waiting.Sessions} {
		for i := range list {
			if s := &list[i]; s.ID == id {
				text := " of " + s.Client
				if s.Backend != "" {
					text += " on " + s.Backend
				}
				return text
			}
		}
	}
	return ""
}
