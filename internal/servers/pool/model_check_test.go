package pool

import (
	"math"
	"slices"

	"pgregory.net/rapid"
)

// check compares the group with the model, and holds both against the invariants of the design.
func (m *model) check(t *rapid.T) {
	holders := make(map[int]bool)
	for _, p := range m.all {
		m.checkBook(t, p)
		m.checkVariants(t, p)
		m.checkCap(t, p)
		m.checkLeases(t, p, holders)
		m.checkSignals(t, p)
	}
	m.checkQueue(t, holders)
	m.checkTenants(t)
	m.all = slices.DeleteFunc(slices.Clone(m.all), func(p *modelPool) bool { // whose end has come
		return !slices.Contains(m.pools, p) && len(p.slots) == 0
	})
}

// checkBook: all numbers are those of the model.
func (m *model) checkBook(t *rapid.T, p *modelPool) {
	want := Stats{
		State: p.mode.String(), Usable: p.usable, Cap: p.settings.Cap, Ceiling: p.size(), Limit: p.cap(), Shared: p.settings.Shared, Grant: p.settings.Grant, Warm: p.settings.Warm, Weight: p.settings.Weight,
		Ramp: p.ramp, Dialing: p.count(Dialing), Idle: p.count(Idle), Leased: p.count(Leased),
		Resetting: p.count(Resetting), Retiring: p.count(Retiring), Totals: p.totals,
	}
	got := p.Stats()
	if got != want {
		t.Fatalf("stats %+v;\nwant  %+v", got, want)
	}
	if got.Used() != len(p.slots) {
		t.Fatalf("%d used; want %d", got.Used(), len(p.slots))
	}
	for _, s := range p.slots {
		if s.slot == nil {
			continue
		}
		if state, sessions := s.slot.State(), s.slot.Sessions(); state != s.state || sessions != s.sessions {
			t.Fatalf("connection %d is %v after %d sessions; want %v, %d", s.number, state, sessions, s.state, s.sessions)
		}
	}
	if p.gone != nil && p.gone.slot.State() != Gone {
		t.Fatalf("connection %d has come back: it is %v", p.gone.number, p.gone.slot.State())
	}
}

// checkCap: there are never more connections than the cap allows, nor more sessions. When it was lowered below what there
// is, nothing is added until it holds again.
func (m *model) checkCap(t *rapid.T, p *modelPool) {
	s := p.Stats()
	used, sessions := s.Dialing+s.Idle+s.Leased+s.Resetting+s.Retiring, s.Leased+s.Resetting
	if used > max(p.cap(), p.used) || sessions > max(p.cap(), p.sessions) {
		t.Fatalf("%d connections, %d sessions; before %d, %d; the cap is %d", used, sessions, p.used, p.sessions, p.cap())
	}
	p.used, p.sessions = used, sessions
}

// checkLeases: a connection is leased to one at a time, and every lease ends in exactly one way.
func (m *model) checkLeases(t *rapid.T, p *modelPool, holders map[int]bool) {
	s := p.Stats()
	if held := uint64(s.Leased + s.Resetting); s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded+held {
		t.Fatalf("leases do not add up: %+v", s)
	}
	if there := uint64(s.Idle + s.Leased + s.Resetting); s.Totals.Dialed != s.Totals.Discarded+s.Totals.RetiredIdle+there {
		t.Fatalf("connections do not add up: %+v", s)
	}
	if s.Totals.Reasons.Sum() != s.Totals.Discarded+s.Totals.RetiredIdle {
		t.Fatalf("reasons do not add up: %+v", s)
	}
	for _, slot := range p.slots {
		if !slot.held {
			continue
		}
		if holders[slot.number] || slot.state != Leased && slot.state != Resetting {
			t.Fatalf("connection %d has two holders, or is %v in its holder's hands", slot.number, slot.state)
		}
		holders[slot.number] = true
	}
}

// checkSignals: a worker that has done all there was to do, and was not signalled since, has nothing to do. The passing of
// time is what it finds out by itself, unless it keeps nothing for any time.
func (m *model) checkSignals(t *rapid.T, p *modelPool) {
	if !p.informed {
		return
	}
	if _, ok := m.wants(p); ok {
		t.Fatalf("a connection is wanted, and the worker was not told: %+v, %d clients wait", p.Stats(), len(m.waiting))
	}
	idleSince := longAgo
	if m.maxIdle == 0 {
		idleSince = m.idleSince()
	}
	if s, reason := m.surplus(p, idleSince); s != nil {
		t.Fatalf("a connection is to be retired as %v, and the worker was not told: %+v", reason, p.Stats())
	}
}

// checkQueue: no client waits without need or out of order, and every client that was queued is somewhere.
func (m *model) checkQueue(t *rapid.T, holders map[int]bool) {
	if w := m.servable(); w != nil {
		if held, _ := m.held(w.waiter.Variant, w); held == 0 {
			t.Fatalf("%d clients wait while there is a connection for one", len(m.waiting))
		}
	}
	for _, w := range m.waiting {
		if len(w.waiter.ready) > 0 {
			t.Fatalf("a client was given a connection before its turn")
		}
	}
	for _, w := range m.handed {
		if len(w.waiter.ready) != 1 || holders[w.conn.number] || w.conn.state != Leased {
			t.Fatalf("the connection %d that was handed over is %v, and held: %v", w.conn.number, w.conn.state, holders[w.conn.number])
		}
		holders[w.conn.number] = true
	}
	m.checkPlaces(t)
	want := QueueStats{Limit: m.limit, Paused: m.paused, Waiting: len(m.waiting), Totals: m.queue}
	want.Totals.WaitedSeconds = float64(m.waited) / 1e9
	if len(m.waiting) > 0 {
		want.OldestSeconds = float64(m.now-m.waiting[0].since) / 1e9
	}
	got := m.group.Queue()
	if math.Abs(got.Totals.WaitedSeconds-want.Totals.WaitedSeconds) > 1e-12 || math.Abs(got.OldestSeconds-want.OldestSeconds) > 1e-12 {
		t.Fatalf("queue %+v; want %+v", got, want)
	}
	got.Totals.WaitedSeconds, got.OldestSeconds = want.Totals.WaitedSeconds, want.OldestSeconds
	if got != want {
		t.Fatalf("queue %+v;\nwant  %+v", got, want)
	}
	if q := got.Totals; q.Queued != q.Served+q.TimedOut+q.Left+q.TurnedAway+q.Refused+q.Evicted+uint64(got.Waiting) || got.Limit == 0 && got.Waiting > 0 {
		t.Fatalf("the queue does not add up: %+v", got)
	}
}

// comeToRest has the dials succeed, the closing end and the workers look when they were signalled, and at no other time,
// until nothing moves. Then each pool must have its wanted size, and no client may wait that it could serve.
func (m *model) comeToRest(t *rapid.T) {
	for moved := true; moved; {
		moved = false
		for _, p := range m.all {
			for _, s := range slices.Clone(p.slots) {
				switch {
				case s.probed != nil:
					m.abandon(t, s)
				case s.state == Dialing:
					m.fill(t, s)
				case s.state == Retiring:
					m.giveUp(t, s)
				default:
					continue
				}
				moved = true
			}
			if !p.informed {
				m.look(t, p)
				moved = true
			}
		}
	}
	m.check(t)
	for _, p := range m.pools {
		sessions, there := p.count(Leased, Resetting), len(p.slots)
		most := max(min(p.cap(), sessions+p.settings.Warm), sessions)
		if p.settings.Variants > 0 {
			most = sessions // how many are warm depends on who came: checkSignals
		}
		if p.passive {
			continue // as many as there were, and none waits: checkSignals
		}
		if p.mode != Enabled {
			continue // its connections stay, or go: checkSignals
		}
		if there < most || m.maxIdle == 0 && there > most && p.settings.Variants == 0 {
			t.Fatalf("at rest there are %d connections; want %d: %+v", there, most, p.Stats())
		}
		if len(m.inOrder()) > 0 && p.dialsForClients() {
			t.Fatalf("at rest %d clients wait while there is room: %+v", len(m.waiting), p.Stats())
		}
	}
}
