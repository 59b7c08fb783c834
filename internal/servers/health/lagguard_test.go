package health

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

const lagLimit = 2 * time.Second

// lagModel is a server that all its sessions share. With n sessions, it does the work of k in time, and what it owes beyond that adds up: its lag
// grows by (n-k)/k seconds a second. Clients always wait for a place.
type lagModel struct {
	k, cap int
	life   time.Duration // of a session, on average
	noise  float64       // seconds, at most, that a reading of lag is too much
	random *rand.Rand

	guard    lagGuard
	now      Instant
	sessions int
	owed     float64 // seconds
	begun    int
	late     int // sessions that began when lag was over the limit
	lowered  int // how often a ceiling came into being
}

// second lets a second pass.
func (m *lagModel) second() {
	const steps = 4
	for range steps {
		for range m.sessions {
			if m.random.Float64() < 1/(m.life.Seconds()*steps) {
				m.sessions--
			}
		}
		places := m.cap
		if m.guard.ceiling > 0 {
			places = min(places, m.guard.ceiling)
		}
		for ; m.sessions < places; m.sessions++ {
			m.begun++
			if m.owed > lagLimit.Seconds() {
				m.late++
			}
		}
		m.owed = max(0, m.owed+(float64(m.sessions)/float64(m.k)-1)/steps)
	}
	m.now += Instant(time.Second)
	lag := time.Duration((m.owed + m.noise*m.random.Float64()) * float64(time.Second))
	if m.guard.read(&LagReading{Lag: lag, InUse: m.sessions, Cap: m.cap}, lagLimit, m.now) && m.guard.ceiling > 0 {
		m.lowered++
	}
}

func newLagModel(k, cap int, life time.Duration, noise float64, seed uint64) *lagModel {
	return &lagModel{k: k, cap: cap, life: life, noise: noise, random: rand.New(rand.NewPCG(seed, 0))}
}

// Ten minutes after the start, a server at its limit, with clients that always wait, keeps as many sessions as it can serve for thirty minutes, give or take one or two of a
// hundred. Fewer sessions that last longer vary more, since one that is too many stays until one ends.
func TestLagGuardSettles(t *testing.T) {
	for _, c := range []struct {
		k     int
		life  time.Duration
		least int     // sessions
		mean  float64 // at least, as a part of k
		late  float64 // percent of the time over the limit, at most
	}{
		{8, 20 * time.Second, 5, .92, .2},
		{8, time.Minute, 5, .93, 2},
		{16, 20 * time.Second, 15, .97, 0},
		{16, time.Minute, 14, .97, 0},
		{16, 5 * time.Minute, 12, .97, 4},
		{100, 20 * time.Second, 97, .98, 0},
		{100, 5 * time.Minute, 96, .98, 0},
	} {
		for _, noise := range []float64{0, 0.3} {
			least, most, late, sum, lowered := 1000, 0, 0, 0, 0
			const runs, seconds = 5, 30 * 60
			for seed := range uint64(runs) {
				m := newLagModel(c.k, c.k*3/2, c.life, noise, seed)
				for range 10 * 60 {
					m.second()
				}
				m.lowered = 0
				for range seconds {
					m.second()
					least, most, sum = min(least, m.sessions), max(most, m.sessions), sum+m.sessions
					if m.owed > lagLimit.Seconds() {
						late++
					}
				}
				lowered += m.lowered
			}
			mean, lately := float64(sum)/(runs*seconds), 100*float64(late)/(runs*seconds)
			t.Logf("%d sessions of %v, noise %v s: %d to %d, mean %.1f; over the limit %.2f %% of the time, %d times in all runs",
				c.k, c.life, noise, least, most, mean, lately, lowered)
			if least < c.least || most > c.k+max(1, c.k*3/100) || mean < c.mean*float64(c.k) || lately > c.late {
				t.Errorf("want %d to %d, mean %.1f, over the limit %v %%", c.least, c.k+max(1, c.k*3/100), c.mean*float64(c.k), c.late)
			}
		}
	}
}

// A server that slows down by three takes no new sessions as soon as its results are late, keeps to what it can serve then, and gets all of its
// sessions back when it has recovered.
func TestLagGuardFollows(t *testing.T) {
	for seed := range uint64(20) {
		m := newLagModel(30, 24, time.Minute, 0.2, seed)
		run := func(d time.Duration) {
			for range int(d / time.Second) {
				m.second()
			}
		}
		run(5 * time.Minute)
		if m.guard.ceiling != 0 || m.lowered > 0 {
			t.Fatalf("of a server that is quick enough: %+v", m.guard)
		}
		m.k = 10
		run(10 * time.Second)
		if m.guard.ceiling == 0 || m.guard.ceiling > 18 {
			t.Fatalf("10 s after it has slowed down: %+v", m.guard)
		}
		m.late = 0
		run(10 * time.Minute)
		if m.sessions > 11 || m.sessions < 6 || m.owed > 4 || m.lowered > 3 {
			t.Errorf("10 minutes later: %d sessions, %.1f s of lag, %d times lowered", m.sessions, m.owed, m.lowered)
		}
		if m.late > 0 {
			t.Errorf("%d sessions began when it was late", m.late)
		}
		m.k = 30
		seconds := 0
		for ; m.guard.ceiling > 0 && seconds < 3600; seconds++ {
			m.second()
		}
		t.Logf("all places are back after %d s", seconds)
		if seconds > 15*60 || m.sessions < 20 {
			t.Errorf("%d s after it has recovered: %d sessions, %+v", seconds, m.sessions, m.guard)
		}
	}
}

// Where lag grows with the number of sessions but not with time, as on servers that work in batches, the ceiling stays below the limit.
func TestLagGuardSteady(t *testing.T) {
	var g lagGuard
	sessions, lowered, late := 24, 0, 0
	for s := range 3600 {
		lag := time.Duration(sessions) * 110 * time.Millisecond
		if g.read(&LagReading{Lag: lag, InUse: sessions, Cap: 24}, lagLimit, Instant(s)*Instant(time.Second)) && g.ceiling > 0 {
			lowered++
		}
		if g.ceiling > 0 && sessions > g.ceiling {
			sessions--
		} else if sessions < g.ceiling {
			sessions++
		}
		if s > 60 && lag > lagLimit {
			late++
		}
	}
	if lowered != 1 || late > 0 || sessions < 9 || sessions > 18 {
		t.Errorf("%d sessions; lowered %d times, late %d times: %+v", sessions, lowered, late, g)
	}
}

// What one client's sessions lack says nothing, if there are others; nor does what one session lacks.
func TestLagOfOneClient(t *testing.T) {
	at := func(address string) Client { return Client{Address: netip.MustParseAddr(address)} }
	late := func(clients ...Client) (worst []SessionLag) {
		for _, c := range clients {
			worst = append(worst, SessionLag{10 * time.Second, c})
		}
		return worst
	}
	a, b, c := at("192.0.2.1"), at("192.0.2.9"), at("203.0.113.1") // a and b share a network
	for name, test := range map[string]struct {
		clients []Client // of the server's sessions
		worst   []SessionLag
		want    bool
	}{
		"one session":              {[]Client{a, c}, late(a), false},
		"one client":               {[]Client{a, c}, late(a, a, b), false},
		"two clients":              {[]Client{a, c}, late(a, a, c), true},
		"two of the only client":   {[]Client{a}, late(a, a), true},
		"one of the only client":   {[]Client{a}, late(a), false},
		"the other is late enough": {[]Client{a, c}, append(late(a), SessionLag{3 * time.Second, c}), true},
		"the other is in time":     {[]Client{a, c}, append(late(a), SessionLag{time.Second, c}), false},
	} {
		h := New(Limits{Parallel: 1, Failures: 1, LagLimit: lagLimit})
		for _, client := range test.clients {
			h.SessionBegan(client, 0)
		}
		for s := range 5 {
			h.SessionsLag(LagReading{Lag: 10 * time.Second, Worst: test.worst, InUse: 8, Cap: 12}, Instant(s)*Instant(time.Second))
		}
		ceiling, changes := h.Ceiling(), h.Changes()
		if (ceiling.Value == 6 && ceiling.Cause == LagCeiling && len(changes) == 1) != test.want || (ceiling == Ceiling{}) == test.want {
			t.Errorf("%s: %+v, %+v", name, ceiling, changes)
		}
	}
}

// The lowest ceiling holds. That of lag is void when the limit is lifted or raised, and when other settings are dialed with.
func TestLowestCeiling(t *testing.T) {
	limits := Limits{Parallel: 1, Failures: 1, LagLimit: lagLimit}
	worst := []SessionLag{{Lag: 9 * time.Second}, {Lag: 9 * time.Second}}
	for name, forget := range map[string]func(*Tracker){
		"raised": func(h *Tracker) { l := limits; l.LagLimit++; h.Configure(l, 0) },
		"lifted": func(h *Tracker) { l := limits; l.LagLimit = 0; h.Configure(l, 0) },
		"renew":  func(h *Tracker) { h.Renew(); h.Review(0, Connections{Cap: 12}) },
	} {
		h := New(limits)
		for s := range 3 {
			h.SessionsLag(LagReading{Lag: 9 * time.Second, Worst: worst, InUse: 8, Cap: 12}, Instant(s)*Instant(time.Second))
		}
		if c := h.Ceiling(); c.Value != 6 || c.Cause != LagCeiling || c.Reason != "results came 9.0s late at 8 sessions, over lag-limit 2s" {
			t.Errorf("with lag: %+v", c)
		}
		h.lowerCeiling(7, 12, 0)
		if c := h.Ceiling(); c.Value != 6 || c.Cause != LagCeiling {
			t.Errorf("with 7 connections when full: %+v", c)
		}
		h.lowerCeiling(5, 12, 0)
		if c := h.Ceiling(); c.Value != 5 || c.Cause != FullCeiling {
			t.Errorf("with 5 connections when full: %+v", c)
		}
		h.Changes()
		forget(h)
		if changes := h.Changes(); h.lag.ceiling != 0 || len(changes) != 1 || changes[0] != (LagChange{}) {
			t.Errorf("%s: %+v, %+v", name, h.lag, changes)
		}
	}
}
