package pool

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is a group in its plainest form: lists of slots and of clients, and what has happened to them. It shares no code
// with what it is compared with: what can be told from other things is not kept but found out each time.
type model struct {
	group      *Group[int]
	balance    Balance
	limit      int // of the queue
	paused     bool
	now        Instant
	hasTenants bool
	variants   bool         // clients need connections of different variants
	maxIdle    Instant      // after which connections beyond the warm ones are retired
	pools      []*modelPool // in the group
	all        []*modelPool // and those that were removed
	waiting    []*modelClient
	handed     []*modelClient // were given a connection that they have not taken yet
	tenants    modelTenants
	leased     uint64 // leases begun
	queue      QueueTotals
	waited     Instant
	numbers    int // of connections and pools
}

type modelPool struct {
	*Pool[int]
	model    *model
	settings Settings
	mode     Mode
	usable   bool
	dialable bool
	passive  bool // nothing is dialed ahead
	ramp     float64
	ceiling  int
	known    []*modelVariant // in the order in which they came to be known
	slots    []*modelSlot    // that are not gone
	gone     *modelSlot      // the last that is
	idle     []*modelSlot    // the one used longest ago first
	totals   Totals

	informed       bool // the worker was not signalled since it looked
	used, sessions int  // at the last check
}

type modelSlot struct {
	slot     *Slot[int] // nil for a probe's
	pool     *modelPool
	state    State
	variant  string
	tenant   string // of the session that uses it
	number   int    // of the connection; 0 when there is none yet
	sessions uint64
	since    Instant // it is idle
	held     bool    // the lease's holder knows it
	probed   func()  // ends the probe that it is a place for; nil for none
}

type modelClient struct {
	waiter *Waiter[int]
	since  Instant
	passed int        // how often it was passed
	conn   *modelSlot // that it was handed
}

// coming returns how many slots are those of connections that are being dialed for the pool.
func (p *modelPool) coming() (n int) {
	for _, s := range p.slots {
		if s.state == Dialing && s.probed == nil {
			n++
		}
	}
	return n
}

// count returns how many slots are in these states.
func (p *modelPool) count(states ...State) (n int) {
	for _, s := range p.slots {
		if slices.Contains(states, s.state) {
			n++
		}
	}
	return n
}

// leasable: sessions may begin.
func (p *modelPool) leasable() bool {
	return !p.model.paused && p.mode == Enabled && p.usable && p.settings.Weight > 0 && p.count(Leased, Resetting) < p.cap()
}

// ready: there is a connection for one of a variant, too.
func (p *modelPool) ready(variant string) bool { return p.leasable() && p.newest(variant) != nil }

func (p *modelPool) room() bool { return p.mode == Enabled && len(p.slots) < p.cap() }

func (p *modelPool) dialsForClients() bool { return p.leasable() && p.dialable && p.room() }

// lessLoaded reports whether used connections of p are a smaller share than those of the other. All factors are small and
// their binary fractions short, so that the products are exact.
func (p *modelPool) lessLoaded(used int, other *modelPool, otherUsed int) bool {
	size := func(p *modelPool) float64 { return float64(p.size()) * p.settings.Weight * p.ramp }
	return float64(used)*size(other) < float64(otherUsed)*size(p)
}

// wants: Reserve should succeed, and for which variant.
func (m *model) wants(p *modelPool) (string, bool) {
	if !p.room() {
		return "", false
	}
	if name, ok := m.demands(p); ok {
		return name, true
	}
	return p.lacking()
}

// demands: p is the one to dial for a client, who needs that variant.
func (m *model) demands(p *modelPool) (string, bool) {
	undialed := m.undialed()
	if !p.dialsForClients() || len(undialed) == 0 {
		return "", false
	}
	for _, other := range m.pools {
		if other.dialsForClients() && other.lessLoaded(other.afterDial(), p, p.afterDial()) {
			return "", false
		}
	}
	return undialed[0].waiter.Variant, true
}

// afterDial returns how many connections sessions use, and will use, if another is dialed.
func (p *modelPool) afterDial() int { return p.coming() + p.count(Leased, Resetting) + 1 }

// surplus returns what RetireSurplus should retire, and why; nil for nothing.
func (m *model) surplus(p *modelPool, idleSince Instant) (*modelSlot, Reason) {
	switch {
	case len(p.idle) == 0:
		return nil, 0
	case p.mode == Disabled:
		return p.idle[0], Withdrawn
	case p.count(Dialing, Idle, Leased, Resetting) > p.cap():
		return p.idle[0], Surplus
	case m.displaces(p):
		return p.idle[0], Displaced
	}
	for _, s := range p.idle {
		first := slices.IndexFunc(p.idle, func(other *modelSlot) bool { return other.variant == s.variant })
		if p.idle[first] == s && p.of(s.variant, Dialing, Idle) > p.warm(s.variant) && s.since < idleSince {
			return s, Surplus
		}
	}
	return nil, 0
}

// rest makes a slot idle.
func (m *model) rest(t *rapid.T, s *modelSlot) {
	s.state, s.since, s.held = Idle, m.now, false
	s.pool.idle = append(s.pool.idle, s)
	m.serve(t)
}

// retire makes a slot retiring.
func (p *modelPool) retire(s *modelSlot, reason Reason) {
	if s.state == Idle {
		p.idle = slices.DeleteFunc(p.idle, func(other *modelSlot) bool { return other == s })
		p.totals.RetiredIdle++
	} else {
		p.totals.Discarded++
	}
	p.totals.Reasons[reason]++
	s.state, s.held = Retiring, false
}

// end makes a slot gone.
func (p *modelPool) end(s *modelSlot) {
	s.state = Gone
	defer p.tidy()
	if s.slot != nil {
		p.gone = s
	}
	p.slots = slices.DeleteFunc(p.slots, func(other *modelSlot) bool { return other == s })
}

// serve sees that those who wait, in their order, were given the connections that there are for them.
func (m *model) serve(t *rapid.T) {
	for w := m.servable(); w != nil; w = m.servable() {
		held, all := m.held(w.waiter.Variant, w)
		if len(w.waiter.ready) == 0 {
			if held == 0 {
				t.Fatalf("a client waits for %q with an idle connection there", w.waiter.Variant)
			}
			return
		}
		if held == all {
			t.Fatalf("a client was given a connection that another waits for, and has long been passed")
		}
		n := <-w.waiter.ready
		w.waiter.ready <- n // not to be taken yet
		w.conn = m.lease(t, n, w)
		m.advance(w.waiter.Tenant)
		m.waiting = slices.DeleteFunc(m.waiting, func(other *modelClient) bool { return other == w })
		m.handed = append(m.handed, w)
		m.queue.Served++
		m.waited += m.now - w.since
	}
}

// lease sees that a connection was leased that should be: to a client that waits, or to one that has just come for nil.
func (m *model) lease(t *rapid.T, number int, w *modelClient) *modelSlot {
	var s *modelSlot
	for _, p := range m.all {
		if i := slices.IndexFunc(p.slots, func(s *modelSlot) bool { return s.number == number }); i >= 0 {
			s = p.slots[i]
		}
	}
	switch {
	case m.paused:
		t.Fatalf("leased connection %d while the group is paused", number)
	case s == nil || s.state != Idle:
		t.Fatalf("leased connection %d, which is %+v", number, s)
	case !slices.Contains(m.candidates(s.variant), s.pool):
		t.Fatalf("leased connection %d of a pool that must not be used, or is more loaded than another", number)
	case s != s.pool.newest(s.variant):
		t.Fatalf("leased connection %d, which was not the last to be used", number)
	case w != nil && w.waiter.Variant != s.variant:
		t.Fatalf("leased connection %d of variant %q to a client that needs %q", number, s.variant, w.waiter.Variant)
	}
	if first := m.passed(s.pool, w); first != nil {
		if first.passed++; first.passed > m.group.maxOvertaken {
			t.Fatalf("a client was passed %d times", first.passed)
		}
	}
	s.pool.idle = slices.DeleteFunc(s.pool.idle, func(other *modelSlot) bool { return other == s })
	s.pool.totals.Leased++
	m.leased++
	s.sessions++
	s.state = Leased
	if w != nil {
		s.tenant = w.waiter.Tenant
	}
	m.use(s.pool, s.variant)
	return s
}

// Whatever happens in whatever order, the group does what the model does.
func TestModel(t *testing.T) {
	t.Parallel()
	for range 4 { // one check is a hundred stories
		rapid.Check(t, runModel)
	}
}

func runModel(t *rapid.T) {
	m := &model{
		balance: rapid.SampledFrom([]Balance{LeastLoaded, RoundRobin, RandomTwo, Hash}).Draw(t, "balance"),
		limit:   rapid.IntRange(0, 5).Draw(t, "queue"),
	}
	m.group = NewGroup[int](Options{Balance: m.balance, Queue: m.limit, Now: func() Instant { return m.now }})
	m.group.maxOvertaken = rapid.SampledFrom([]int{0, 1, maxOvertaken}).Draw(t, "maxOvertaken")
	m.maxIdle = rapid.SampledFrom([]Instant{0, 5}).Draw(t, "maxIdle")
	m.variants = rapid.Bool().Draw(t, "variants")
	m.hasTenants = rapid.Bool().Draw(t, "tenants")
	m.tenants = modelTenants{began: make(map[string]float64), served: make(map[string]float64)}
	m.add(t)
	actions := map[string]func(*rapid.T){
		"": m.check, "add": m.add, "remove": m.remove, "set": m.set, "mode": m.setMode, "usable": m.setUsable,
		"dialable": m.setDialable, "ahead": m.setAhead, "ramp": m.setRamp, "trial": m.trial, "probe": m.probe, "failed": m.failed, "refused": m.refused, "abandoned": m.abandoned,
		"leave": m.leave, "reset": m.reset, "discard": m.discard, "withdraw": m.withdraw, "retireOldest": m.retireOldest,
		"pause": m.pause, "resume": m.resume, "expect": m.expect, "forget": m.forget, "ceiling": m.setCeiling, "grant": m.setGrant,
		"retireSurplus": m.retireSurplus, "misuse": m.misuse, "pass": m.pass, "tenants": m.setTenants,
	}
	// As often as the others together need, so that there are connections, and clients who want more.
	for name, action := range map[string]func(*rapid.T){
		"work": m.work, "filled": m.filled, "acquire": m.acquire, "take": m.take, "return": m.giveBack, "goneNow": m.goneNow,
	} {
		for i := range 3 {
			actions[fmt.Sprint(name, i)] = action
		}
	}
	t.Repeat(actions)
	m.goHome(t)
}
