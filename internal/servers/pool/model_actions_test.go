package pool

import (
	"errors"
	"slices"

	"pgregory.net/rapid"
)

// draw draws one of some things, or skips the action when there are none.
func draw[T any](t *rapid.T, what string, things []T) T {
	if len(things) == 0 {
		t.Skip("no " + what)
	}
	return things[rapid.IntRange(0, len(things)-1).Draw(t, what)]
}

// one draws a slot for which f is true.
func (m *model) one(t *rapid.T, f func(*modelSlot) bool) *modelSlot {
	var found []*modelSlot
	for _, p := range m.all {
		for _, s := range p.slots {
			if f(s) {
				found = append(found, s)
			}
		}
	}
	return draw(t, "slot", found)
}

func (m *model) in(t *rapid.T, states ...State) *modelSlot {
	return m.one(t, func(s *modelSlot) bool { return slices.Contains(states, s.state) })
}

// lent draws a slot whose lease's holder knows it: only that one uses it.
func (m *model) lent(t *rapid.T, states ...State) *modelSlot {
	return m.one(t, func(s *modelSlot) bool { return s.held && slices.Contains(states, s.state) })
}

func drawReason(t *rapid.T) Reason { return Reason(rapid.IntRange(0, reasons-1).Draw(t, "reason")) }

// coming draws the slot of a connection that is being dialed.
func (m *model) coming(t *rapid.T) *modelSlot {
	return m.one(t, func(s *modelSlot) bool { return s.state == Dialing && s.probed == nil })
}

func (m *model) filled(t *rapid.T) { m.fill(t, m.coming(t)) }

func (m *model) fill(t *rapid.T, s *modelSlot) {
	m.numbers++
	s.number = m.numbers
	s.slot.Filled(s.number)
	s.pool.totals.Dialed++
	m.rest(t, s)
}

func (m *model) failed(t *rapid.T) {
	s := m.coming(t)
	s.slot.Failed()
	s.pool.totals.DialFailed++
	s.pool.end(s)
	m.serve(t)
}

// refused: the server refuses clients that wait for connections of that variant; each gets the reason and stops waiting.
func (m *model) refused(t *rapid.T) {
	s, why := m.coming(t), errors.New("refused")
	var told []*modelClient
	m.waiting = slices.DeleteFunc(m.waiting, func(w *modelClient) bool {
		if w.waiter.Variant != s.variant {
			return false
		}
		told = append(told, w)
		return true
	})
	s.slot.Refused(why)
	s.pool.totals.Refused++
	if v := s.pool.know(s.variant); s.pool.settings.Variants > 0 {
		v.kept = false
	}
	s.pool.end(s)
	s.pool.tidy()
	for _, w := range told {
		m.queue.Refused++
		n, handed := <-w.waiter.Ready()
		if handed || w.waiter.Refused() != why {
			t.Fatalf("a client that was refused got connection %d, %v, and the reason %v", n, handed, w.waiter.Refused())
		}
		if n, leased := m.group.Leave(w.waiter, TimedOut); leased {
			t.Fatalf("a client that was refused left with connection %d", n)
		}
	}
	m.serve(t)
}

func (m *model) abandoned(t *rapid.T) {
	m.abandon(t, m.in(t, Dialing))
}

func (m *model) abandon(t *rapid.T, s *modelSlot) {
	if s.probed != nil {
		s.probed()
	} else {
		s.slot.Abandoned()
	}
	s.pool.end(s)
	m.serve(t)
}

func (m *model) acquire(t *rapid.T) {
	w := &Waiter[int]{
		Key: rapid.Uint64().Draw(t, "key"), Variant: m.name(t), Tenant: m.tenantName(t), Begun: rapid.Bool().Draw(t, "begun"),
	}
	held, candidates := m.held(w.Variant, nil)
	may := !m.mustWait(w) && held < candidates
	n, ok, err := m.group.Acquire(w)
	switch {
	case may && (held == 0 || ok):
		if !ok || err != nil {
			t.Fatalf("Acquire: %v, %v with an idle connection there", ok, err)
		}
		s := m.lease(t, n, nil)
		if s.variant != w.Variant {
			t.Fatalf("leased connection %d of variant %q to a client that needs %q", n, s.variant, w.Variant)
		}
		s.held, s.tenant = true, w.Tenant
		m.took(w.Tenant)
		if w.Lease() != s.sessions {
			t.Fatalf("lease %d of connection %d; want %d", w.Lease(), n, s.sessions)
		}
	case len(m.waiting) >= m.limit && (m.limit == 0 || len(m.waiting) >= m.limit+m.vacant(w.Tenant)) && !m.makesRoom(t, w.Tenant):
		want := ErrQueueFull
		switch {
		case m.paused:
			want = ErrPaused
		case m.promised() > 0 && m.free() > 0 && !m.entitled(w.Tenant):
			want = ErrGuaranteed
		case m.limit == 0:
			want = ErrNoQueue
		}
		if ok || !errors.Is(err, want) {
			t.Fatalf("Acquire: %v, %v; want %v", ok, err, want)
		}
		m.queue.Full++
	default:
		if m.waitingOf(w.Tenant) == 0 {
			m.tenants.began[w.Tenant] = m.tenants.virtual
		}
		m.waiting = append(m.waiting, &modelClient{waiter: w, since: m.now})
		if ok || err != nil || w.Position() != len(m.waiting) {
			t.Fatalf("Acquire: %v, %v, position %d; want position %d", ok, err, w.Position(), len(m.waiting))
		}
		m.queue.Queued++
		m.serve(t)
	}
}

// pause stops leasing, and resume serves those that wait.
func (m *model) pause(t *rapid.T) {
	if got := m.group.Pause(); got == m.paused {
		t.Fatalf("Pause: %v; the group was paused: %v", got, m.paused)
	}
	m.paused = true
}

func (m *model) resume(t *rapid.T) {
	if got := m.group.Resume(); got != m.paused {
		t.Fatalf("Resume: %v; the group was paused: %v", got, m.paused)
	}
	m.paused = false
	m.serve(t)
}

// take is a client's taking the connection that it was handed.
func (m *model) take(t *rapid.T) {
	w := draw(t, "client", m.handed)
	if w.waiter.Lease() != w.conn.sessions {
		t.Fatalf("lease %d of connection %d; want %d", w.waiter.Lease(), w.conn.number, w.conn.sessions)
	}
	if n := m.taken(w, <-w.waiter.Ready()); n != w.conn.number {
		t.Fatalf("took connection %d; was given %d", n, w.conn.number)
	}
}

func (m *model) taken(w *modelClient, n int) int {
	m.handed = slices.DeleteFunc(m.handed, func(other *modelClient) bool { return other == w })
	w.conn.held = true
	return n
}

func (m *model) leave(t *rapid.T) {
	w := draw(t, "client", slices.Concat(m.waiting, m.handed))
	why := rapid.SampledFrom([]Departure{TimedOut, LeftEarly, TurnedAway}).Draw(t, "why")
	n, leased := m.group.Leave(w.waiter, why)
	if leased != (w.conn != nil) || leased && n != w.conn.number {
		t.Fatalf("left with connection %d, %v; was given %+v", n, leased, w.conn)
	}
	if leased {
		m.taken(w, n)
		return
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(other *modelClient) bool { return other == w })
	*map[Departure]*uint64{TimedOut: &m.queue.TimedOut, LeftEarly: &m.queue.Left, TurnedAway: &m.queue.TurnedAway}[why]++
	m.serve(t)
}

func (m *model) reset(t *rapid.T) {
	s := m.lent(t, Leased)
	s.slot.Reset(s.sessions)
	s.state = Resetting
	m.serve(t)
}

func (m *model) giveBack(t *rapid.T) {
	s := m.lent(t, Leased, Resetting)
	s.slot.Return(s.sessions)
	s.pool.totals.Returned++
	m.rest(t, s)
}

func (m *model) discard(t *rapid.T) {
	s, reason := m.lent(t, Leased, Resetting), drawReason(t)
	s.slot.Discard(s.sessions, reason)
	s.pool.retire(s, reason)
	m.serve(t)
}

func (m *model) withdraw(t *rapid.T) {
	s, reason := m.one(t, func(s *modelSlot) bool { return s.slot != nil }), drawReason(t)
	got := s.slot.Withdraw(reason)
	if got != (s.state == Idle) {
		t.Fatalf("Withdraw of a slot that is %v: %v", s.state, got)
	}
	if got {
		s.pool.retire(s, reason)
		m.serve(t)
	}
}

func (m *model) goneNow(t *rapid.T) { m.giveUp(t, m.in(t, Retiring)) }

func (m *model) giveUp(t *rapid.T, s *modelSlot) {
	s.slot.Gone()
	s.pool.end(s)
	m.serve(t)
}

// misuse does to a slot what its state does not allow, or what the holder of an earlier lease may no longer do.
func (m *model) misuse(t *rapid.T) {
	var all []*modelSlot
	for _, p := range m.all {
		if all = append(all, p.slots...); p.gone != nil {
			all = append(all, p.gone)
		}
	}
	all = slices.DeleteFunc(all, func(s *modelSlot) bool { return s.slot == nil })
	s := draw(t, "slot", all)
	lease := s.sessions
	stale := lease > 0 && rapid.Bool().Draw(t, "stale") // the one that had the connection before
	if stale {
		lease -= uint64(rapid.IntRange(1, int(lease)).Draw(t, "leases ago"))
	}
	calls := []struct {
		name    string
		call    func()
		allowed []State
	}{
		{"Filled", func() { s.slot.Filled(-1) }, []State{Dialing}},
		{"Failed", s.slot.Failed, []State{Dialing}},
		{"Abandoned", s.slot.Abandoned, []State{Dialing}},
		{"Reset", func() { s.slot.Reset(lease) }, []State{Leased}},
		{"Return", func() { s.slot.Return(lease) }, []State{Leased, Resetting}},
		{"Discard", func() { s.slot.Discard(lease, Lost) }, []State{Leased, Resetting}},
		{"Gone", s.slot.Gone, []State{Retiring}},
	}
	c := calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")]
	if slices.Contains(c.allowed, s.state) && (!stale || c.allowed[0] != Leased) {
		t.Skip("allowed")
	}
	if !panics(c.call) {
		t.Fatalf("%s of a slot that is %v went well", c.name, s.state)
	}
}
