package pool

import "testing"

// granted are the settings of a pool whose server other proxies use, too.
func granted(limit, grant, warm int) Settings {
	return Settings{Cap: limit, Shared: true, Grant: grant, Warm: warm, Weight: 1}
}

// A grant is the limit: nothing is dialed beyond it, and clients wait for places although the cap has room.
func TestGrantIsTheLimit(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, granted(4, 0, 4))
	p := r.pools[0]
	p.reservesNone("a connection is dialed without a grant")
	if _, ok := p.ReserveTrial(); ok {
		t.Error("a trial is dialed without a grant")
	}
	if _, ok := p.ReserveProbe(); ok {
		t.Error("a probe is dialed without a grant")
	}
	if _, _, _, ok := p.ReserveSpare(); ok {
		t.Error("a canary is dialed without a grant")
	}
	w := r.wait()
	r.expectSignals("a grant", []int{0}, func() { p.Set(granted(4, 1, 4)) })
	r.filled(p.dial())
	giveBack(r.handed(w))
	p.expect(0, 1, 0, 0, 0)
	p.reservesNone("a second connection is dialed with a grant of one place")
}

// When the grant is lowered, idle connections beyond it are retired, however many are to be kept warm, and the others when their sessions
// have ended. None is dialed until there are fewer than the grant.
func TestGrantIsLowered(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, granted(6, 6, 6))
	p := r.pools[0]
	sessions := p.lease(3)
	p.fill(3)
	r.expectSignals("a lower grant", []int{0}, func() { p.Set(granted(6, 2, 6)) })
	var closing []*Slot[int]
	for range 3 {
		n, ok := p.RetireSurplus(r.clock - 1000)
		if !ok {
			t.Fatal("an idle connection stays beyond the grant")
		}
		closing = append(closing, r.slots[n])
	}
	p.expect(0, 0, 3, 0, 3)
	w := r.wait()
	giveBack(sessions[0])
	r.waiting(w)
	n, ok := p.RetireSurplus(r.clock - 1000)
	if !ok || r.slots[n] != sessions[0] {
		t.Fatal("the connection of a session that has ended stays beyond the grant")
	}
	for _, s := range append(closing, sessions[0]) {
		p.reservesNone("a connection is dialed beyond the grant")
		s.Gone()
	}
	p.expect(0, 0, 2, 0, 0)
	giveBack(sessions[1])
	giveBack(r.handed(w))
	p.expect(0, 1, 1, 0, 0)
}

// Backends are compared by what their servers accept, not by what this proxy was granted.
func TestLoadIgnoresGrants(t *testing.T) {
	r := newRig(t, Options{}, granted(10, 3, 0), granted(10, 8, 0))
	r.pools[0].fill(3)
	r.pools[1].fill(8)
	for range 6 {
		r.lease()
	}
	r.pools[0].expect(0, 0, 3, 0, 0)
	r.pools[1].expect(0, 5, 3, 0, 0)
	r.lease()
	r.pools[0].expect(0, 0, 3, 0, 0)
	loads, _ := r.Loads()
	if l := loads[0]; l.Weighted != 10 || l.Limit != 3 || l.Free != 0 || l.Grantable != 7 {
		t.Errorf("the load is %+v", l)
	}
	r.pools[0].SetMode(Draining)
	if loads, _ = r.Loads(); loads[0].Grantable != 0 || loads[1].Grantable != 2 {
		t.Errorf("the loads are %+v", loads)
	}
}

// More places are asked for when more clients wait than the grants leave room for, and others learn at once that a place was given back.
func TestDemandForPlaces(t *testing.T) {
	asked := 0
	r := newRig(t, Options{Queue: 9, Demand: func() { asked++ }}, granted(4, 2, 0), granted(4, 1, 0))
	expect := func(what string, want int) {
		t.Helper()
		if asked != want {
			t.Errorf("%s: places were asked for %d times; want %d", what, asked, want)
		}
		asked = 0
	}
	for range 3 {
		r.wait()
	}
	expect("clients for whom there is room", 0)
	r.wait()
	expect("a client beyond the grants", 1)
	p := r.pools[0]
	s := p.dial()
	s.Failed()
	expect("a dial that failed within the grant", 0)
	r.filled(p.dial())
	r.filled(p.dial())
	p.Set(granted(4, 1, 0))
	first := r.slots[1]
	discard(first, Served)
	expect("a session ends beyond the grant", 0)
	first.Gone()
	expect("its connection is gone", 1)
	discard(r.slots[2], Served)
	r.slots[2].Gone()
	expect("one within the grant is gone", 0)
	r.Pause()
	r.wait()
	expect("a client of a paused service", 0)
}

// Promises to tenants are counted as far as they are not used, whatever room the grants leave.
func TestPromisedPlaces(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, granted(8, 1, 0))
	r.SetTenants(&TenantSettings{Guaranteed: map[string]int{"a": 3, "b": 1}})
	if got := r.Promised(); got != 4 {
		t.Errorf("%d places are promised; want 4", got)
	}
	r.pools[0].fill(1)
	if _, ok, _ := r.Acquire(&Waiter[int]{Tenant: "a"}); !ok {
		t.Fatal("a guaranteed place is not given")
	}
	if got := r.Promised(); got != 3 {
		t.Errorf("%d places are promised; want 3", got)
	}
}
