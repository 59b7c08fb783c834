package pool

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is a pool in its plainest form: a list of slots, and what has happened to them.
type model struct {
	limit  int
	pool   *Pool[int]
	slots  []*modelSlot // all ever
	idle   []*modelSlot // oldest first
	totals Totals
	next   int
}

type modelSlot struct {
	slot     *Slot[int]
	state    State
	number   int
	sessions uint64
}

// in returns the slots of a state.
func (m *model) in(states ...State) []*modelSlot {
	var found []*modelSlot
	for _, s := range m.slots {
		if slices.Contains(states, s.state) {
			found = append(found, s)
		}
	}
	return found
}

// one draws a slot of a state, or skips the action when there is none.
func (m *model) one(t *rapid.T, states ...State) *modelSlot {
	found := m.in(states...)
	if len(found) == 0 {
		t.Skip("none")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, "slot")]
}

func (m *model) reserve(t *rapid.T) {
	warm := rapid.IntRange(0, m.limit+1).Draw(t, "warm")
	want := len(m.in(Dialing, Idle)) < warm && len(m.in(Dialing, Idle, Leased, Resetting, Retiring)) < m.limit
	s, ok := m.pool.Reserve(warm)
	if ok != want {
		t.Fatalf("Reserve(%d): %v; want %v", warm, ok, want)
	}
	if ok {
		m.slots = append(m.slots, &modelSlot{slot: s, state: Dialing})
	}
}

func (m *model) filled(t *rapid.T) {
	s := m.one(t, Dialing)
	m.next++
	s.number = m.next
	s.slot.Filled(s.number)
	m.totals.Dialed++
	m.rest(s)
}

func (m *model) failed(t *rapid.T) {
	s := m.one(t, Dialing)
	s.slot.Failed()
	m.totals.DialFailed++
	s.state = Gone
}

func (m *model) lease(t *rapid.T) {
	number, ok := m.pool.Lease()
	if ok != (len(m.idle) > 0) {
		t.Fatalf("Lease: %v with %d idle", ok, len(m.idle))
	}
	if !ok {
		return
	}
	s := m.idle[len(m.idle)-1]
	if number != s.number {
		t.Fatalf("leased connection %d, which is %v; want %d, the one used last", number, m.stateOf(number), s.number)
	}
	m.idle = m.idle[:len(m.idle)-1]
	s.state = Leased
	s.sessions++
	m.totals.Leased++
}

func (m *model) stateOf(number int) State {
	i := slices.IndexFunc(m.slots, func(s *modelSlot) bool { return s.number == number })
	return m.slots[i].state
}

func (m *model) reset(t *rapid.T) {
	s := m.one(t, Leased)
	s.slot.Reset()
	s.state = Resetting
}

func (m *model) giveBack(t *rapid.T) {
	s := m.one(t, Leased, Resetting)
	s.slot.Return()
	m.totals.Returned++
	m.rest(s)
}

func (m *model) discard(t *rapid.T) {
	s := m.one(t, Leased, Resetting)
	s.slot.Discard()
	m.totals.Discarded++
	s.state = Retiring
}

func (m *model) withdraw(t *rapid.T) {
	s := m.one(t, Dialing, Idle, Leased, Resetting, Retiring, Gone)
	want := s.state == Idle
	if got := s.slot.Withdraw(); got != want {
		t.Fatalf("Withdraw of a slot that is %v: %v", s.state, got)
	}
	if want {
		m.retireIdle(s)
	}
}

func (m *model) retireOldest(t *rapid.T) {
	number, ok := m.pool.RetireIdle()
	if ok != (len(m.idle) > 0) {
		t.Fatalf("RetireIdle: %v with %d idle", ok, len(m.idle))
	}
	if !ok {
		return
	}
	if s := m.idle[0]; number != s.number {
		t.Fatalf("retired connection %d; want %d, the one used longest ago", number, s.number)
	}
	m.retireIdle(m.idle[0])
}

func (m *model) gone(t *rapid.T) {
	s := m.one(t, Retiring)
	s.slot.Gone()
	s.state = Gone
}

// misuse calls what the slot's state does not allow.
func (m *model) misuse(t *rapid.T) {
	calls := map[string][]State{"filled": {Dialing}, "failed": {Dialing}, "reset": {Leased}, "return": {Leased, Resetting}, "discard": {Leased, Resetting}, "gone": {Retiring}}
	s := m.one(t, Dialing, Idle, Leased, Resetting, Retiring, Gone)
	call := rapid.SampledFrom([]string{"filled", "failed", "reset", "return", "discard", "gone"}).
		Filter(func(name string) bool { return !slices.Contains(calls[name], s.state) }).Draw(t, "call")
	defer func() {
		if recover() == nil {
			t.Fatalf("%s of a slot that is %v went well", call, s.state)
		}
	}()
	map[string]func(){
		"filled": func() { s.slot.Filled(-1) }, "failed": s.slot.Failed, "reset": s.slot.Reset,
		"return": s.slot.Return, "discard": s.slot.Discard, "gone": s.slot.Gone,
	}[call]()
}

func (m *model) rest(s *modelSlot) {
	s.state = Idle
	m.idle = append(m.idle, s)
}

func (m *model) retireIdle(s *modelSlot) {
	m.idle = slices.DeleteFunc(m.idle, func(other *modelSlot) bool { return other == s })
	s.state = Retiring
	m.totals.RetiredIdle++
}

// check compares the pool with the model, and both with the invariants of the design.
func (m *model) check(t *rapid.T) {
	s := m.pool.Stats()
	want := Stats{
		Cap: m.limit, Dialing: len(m.in(Dialing)), Idle: len(m.in(Idle)), Leased: len(m.in(Leased)),
		Resetting: len(m.in(Resetting)), Retiring: len(m.in(Retiring)), Totals: m.totals,
	}
	if s != want {
		t.Fatalf("stats %+v;\nwant  %+v", s, want)
	}
	for _, slot := range m.slots {
		if got := slot.slot.State(); got != slot.state {
			t.Fatalf("connection %d is %v; want %v", slot.number, got, slot.state)
		}
		if got := slot.slot.Sessions(); got != slot.sessions {
			t.Fatalf("connection %d served %d sessions; want %d", slot.number, got, slot.sessions)
		}
	}
	if s.Used() > m.limit {
		t.Fatalf("%d connections; the cap is %d", s.Used(), m.limit)
	}
	if held := uint64(s.Leased + s.Resetting); s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded+held {
		t.Fatalf("leases do not add up: %+v", s)
	}
	if there := uint64(s.Idle + s.Leased + s.Resetting); s.Totals.Dialed != s.Totals.Discarded+s.Totals.RetiredIdle+there {
		t.Fatalf("connections do not add up: %+v", s)
	}
	share, idle := m.pool.Load()
	if share != float64(s.Leased+s.Resetting)/float64(m.limit) || idle != (s.Idle > 0) {
		t.Fatalf("load %v, %v of %+v", share, idle, s)
	}
}

// Whatever happens in whatever order, the pool does what the model does.
func TestModel(t *testing.T) {
	for range 10 { // one check is a hundred runs of some thirty steps
		rapid.Check(t, runModel)
	}
}

func runModel(t *rapid.T) {
	m := &model{limit: rapid.IntRange(1, 6).Draw(t, "cap")}
	m.pool = New[int](m.limit, func() {})
	t.Repeat(map[string]func(*rapid.T){
		"":           m.check,
		"reserve":    m.reserve,
		"reserve2":   m.reserve, // as often as the others together need
		"filled":     m.filled,
		"filled2":    m.filled,
		"failed":     m.failed,
		"lease":      m.lease,
		"reset":      m.reset,
		"return":     m.giveBack,
		"discard":    m.discard,
		"withdraw":   m.withdraw,
		"retireIdle": m.retireOldest,
		"gone":       m.gone,
		"misuse":     m.misuse,
	})
}
