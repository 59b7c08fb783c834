package top

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func sessionDetail() api.SessionDetail {
	s := liveSessions(4).Sessions[3]
	return api.SessionDetail{
		Session: s, Path: "/v1/stt", Profile: "vosk", Paused: true, PendingToBackend: 4096,
		Server: &api.Connection{ID: "gpu-2/17", State: "serving", Established: noon.Add(-time.Hour), AgeSeconds: 3725, Sessions: 41, RoundTripSeconds: 0.0021},
		Failover: &api.Failover{
			Assured: true, KeptBytes: 66 << 10, AudioSeconds: 12.3, AnsweredSeconds: 10.2,
			Moves: []api.Move{{Time: noon, From: "gpu-1", To: "gpu-2", Cause: "lost", ReplayedSeconds: 2.1, TookSeconds: 0.31}},
		},
		Before: []api.Session{{ID: "q7m2kd4x-900", Client: "10.1.2.9:4000", AgeSeconds: 12, By: "client", Code: 1000}},
	}
}

func troubled() *Model {
	m := NewModel("x", Style{Plain: true})
	playTrouble(m)
	return m
}

// press presses keys and returns the last order.
func press(m *Model, keys ...string) (o Order) {
	for _, key := range keys {
		o = m.Key(key)
	}
	return o
}

// Keys give the orders that they stand for, those that harm sessions only after a yes.
func TestOrders(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want Order
	}{
		{[]string{"q"}, Order{Verb: Quit}},
		{[]string{"/", "q", "ctrl+c"}, Order{Verb: Quit}},
		{[]string{"4", "k", "ctrl+c"}, Order{Verb: Quit}},
		{[]string{"ctrl+z"}, Order{Verb: Suspend}},
		{[]string{"4", "k"}, Order{}},
		{[]string{"4", "k", "n"}, Order{}},
		{[]string{"4", "k", "enter"}, Order{}},
		{[]string{"4", "k", "y"}, Order{Kill, "q7m2kd4x-1045"}}, // the largest lag
		{[]string{"4", "down", "down", "k", "y"}, Order{Kill, "q7m2kd4x-1043"}},
		{[]string{"4", "end", "up", "k", "y"}, Order{Kill, "q7m2kd4x-1054"}},
		{[]string{"4", "enter", "k", "y"}, Order{Kill, "q7m2kd4x-1045"}},
		{[]string{"3", "k", "y"}, Order{Kill, "q7m2kd4x-2000"}},
		{[]string{"2", "k", "y"}, Order{}},
		{[]string{"2", "d", "y"}, Order{Drain, "gpu-1"}},
		{[]string{"2", "down", "d"}, Order{}},
		{[]string{"2", "end", "e"}, Order{Enable, "mt-1"}},
		{[]string{"4", "d", "y"}, Order{}},
		{[]string{"1", "p", "y"}, Order{Pause, "stt"}},
		{[]string{"1", "down", "p"}, Order{Resume, "translate"}},
		{[]string{"4", "enter"}, Order{Show, "q7m2kd4x-1045"}},
		{[]string{"4", "s"}, Order{Verb: Watch}},
		{[]string{"2", "s"}, Order{}},
		{[]string{"/", "a", "enter"}, Order{Verb: Watch}},
		{[]string{"2", "enter", "s"}, Order{Verb: Watch}},
		{[]string{"tab", "tab", "tab", "tab", "shift+tab", "k", "y"}, Order{Kill, "q7m2kd4x-2000"}},
	} {
		if got := press(troubled(), c.keys...); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.keys, got, c.want)
		}
	}
}

// A key that fits nowhere says so, and nothing is asked of a proxy that is gone.
func TestWrongKeys(t *testing.T) {
	m := troubled()
	press(m, "2", "k")
	if m.ask != nil || !strings.Contains(m.View(), "kill: choose a session first") {
		t.Errorf("a backend cannot be killed:\n%s", m.View())
	}
	m.Update(Update{At: noon, Away: errors.New("gone")})
	if o := press(m, "4", "k"); o != (Order{}) || m.ask != nil || !strings.Contains(m.View(), "the proxy does not answer") {
		t.Errorf("%+v:\n%s", o, m.View())
	}
	empty := NewModel("x", Style{Plain: true})
	for _, key := range []string{"1", "2", "3", "4"} {
		if o := press(empty, key, "down", "enter", "k", "d", "e", "p", "y", "s"); o.Verb != None && o.Verb != Watch {
			t.Errorf("nothing is known, but %+v", o)
		}
	}
}

// The cursor stays on its row when the order changes, and at its position when the row goes.
func TestCursor(t *testing.T) {
	m := troubled()
	press(m, "4", "s", "down", "down", "down") // by rate
	list := liveSessions(14)
	list.Sessions[3].FramesPerSecond = 1000
	m.Update(Update{At: noon, Sessions: list})
	if p, key := m.current(); p != sessionsPane || key != "q7m2kd4x-1045" {
		t.Errorf("after it became the first: %v %s", p, key)
	}
	press(m, "down", "down")
	list = liveSessions(14)
	list.Sessions[3].FramesPerSecond = 1000
	list.Sessions = append(list.Sessions[:1], list.Sessions[2:]...)
	m.Update(Update{At: noon, Sessions: list})
	if _, key := m.current(); key != "q7m2kd4x-1044" {
		t.Errorf("after its row has gone: %s", key)
	}
	m.Update(Update{At: noon, Sessions: new(api.SessionList)})
	if _, key := m.current(); key != "" {
		t.Errorf("without any session: %s", key)
	}
}

// The filter asks the proxy for what it knows, and hides rows in all panes.
func TestFilter(t *testing.T) {
	m := troubled()
	for _, key := range strings.Split("/backend=gpu-2 10.1", "") {
		if key == " " {
			key = "space"
		}
		m.Key(key)
	}
	if o := m.Key("enter"); o.Verb != Watch || m.Query().Backend != "gpu-2" || m.Query().Limit != api.MaxEventSessions {
		t.Errorf("%+v, %+v", o, m.Query())
	}
	if rows := m.rows(sessionsPane); len(rows) != 7 {
		t.Errorf("%d sessions on gpu-2, want 7", len(rows))
	}
	m.Key("esc")
	if q := m.Query(); q.Backend != "" || len(m.rows(sessionsPane)) != 14 {
		t.Errorf("after esc: %+v", q)
	}
	press(m, "/", "G", "P", "U", "-", "1", "x", "backspace", "enter")
	if rows := m.rows(backendsPane); len(rows) != 1 || rows[0].key != "gpu-1" {
		t.Errorf("backends: %+v", rows)
	}
	press(m, "/", "ctrl+u", "s", "t", "a", "t", "e", "=", "n", "o", "enter")
	if q := m.Query(); q.State != "" {
		t.Errorf("a state that is none is asked for: %+v", q)
	}
	m.filter = strings.Repeat("x", 100)
	press(m, "/", "y")
	if len(m.filter) != 100 {
		t.Errorf("a filter of %d characters", len(m.filter))
	}
}

// The details follow their session until it has ended, and answers that come late go nowhere.
func TestDetails(t *testing.T) {
	m := troubled()
	press(m, "4", "enter")
	if m.Following() != "q7m2kd4x-1045" || !strings.Contains(m.View(), "...") {
		t.Errorf("following %s:\n%s", m.Following(), m.View())
	}
	m.Detail("q7m2kd4x-1043", new(api.SessionDetail), nil)
	if m.detail.session != nil {
		t.Error("it shows another session")
	}
	m.Detail("q7m2kd4x-1045", nil, errors.New("unknown session"))
	if !strings.Contains(m.View(), "unknown session") {
		t.Errorf("an error:\n%s", m.View())
	}
	press(m, "esc")
	if m.Following() != "" {
		t.Errorf("still following %s", m.Following())
	}
	press(m, "2", "enter", "s")
	if m.filter != "backend=gpu-1" || m.focus != sessionsPane {
		t.Errorf("its sessions: %q", m.filter)
	}
}

// Details in a terminal of a few lines can be scrolled past their end.
func TestDetailsOfFewLines(t *testing.T) {
	for height := range 6 {
		m := troubled()
		m.Resize(80, height)
		press(m, "2", "enter")
		for range 100 {
			press(m, "down")
			_ = m.View()
		}
	}
}

// What became of an order is shown until the next key.
func TestNotes(t *testing.T) {
	m := troubled()
	m.Done("session ended", nil)
	if !strings.HasSuffix(m.View(), "session ended") {
		t.Errorf("done:\n%s", m.View())
	}
	m.Done("", errors.New("no such session"))
	if !m.failed || !strings.HasSuffix(m.View(), "no such session") {
		t.Errorf("failed:\n%s", m.View())
	}
	m.Key("up")
	if strings.Contains(m.View(), "no such session") {
		t.Errorf("after a key:\n%s", m.View())
	}
}

// Rates come from two statistics of one process.
func TestRates(t *testing.T) {
	before, after := busyStats()
	if r := ratesBetween(before, after); !r.known || r.sessions != 6 || r.frames != 1040 || r.bytes != 3<<20 {
		t.Errorf("%+v", r)
	}
	for _, again := range []*api.Stats{before, {UptimeSeconds: 1}} {
		if r := ratesBetween(after, again); r.known {
			t.Errorf("after a restart: %+v", r)
		}
	}
	if r := ratesBetween(nil, after); r.known {
		t.Errorf("at first: %+v", r)
	}
}

// Sessions of a whole fleet are not sorted by what only one proxy's stream has, and rates are those of the same proxies.
func TestFleet(t *testing.T) {
	m := NewModel("10.0.0.1:9090", Style{Plain: true})
	playFleet(m)
	orders := ordersOf(sessionsPane)
	var names []string
	for range len(orders) - 1 {
		names = append(names, orders[m.orderOf(sessionsPane)].name)
		m.Key("s")
	}
	if got := strings.Join(names, " "); got != "lag age bytes waited backend client" || orders[m.orderOf(sessionsPane)].name != "lag" {
		t.Errorf("the orders are %s", got)
	}
	if !m.rates.known {
		t.Error("no rates of the same proxies")
	}
	one := *m.stats
	fleet := *one.Fleet
	fleet.Proxies = slices.Clone(fleet.Proxies)
	fleet.Proxies[1].Reachable = false
	one.Fleet, one.UptimeSeconds = &fleet, one.UptimeSeconds+1
	m.Update(Update{At: noon, Stats: &one})
	if m.rates.known {
		t.Errorf("rates between the sums of different proxies: %+v", m.rates)
	}
}
