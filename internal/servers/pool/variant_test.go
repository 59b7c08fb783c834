package pool

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// varied are settings of a pool that keeps connections of up to three variants warm.
func varied(limit, warm int) Settings {
	return Settings{Cap: limit, Warm: warm, Weight: 1, Variants: 3}
}

// waitFor queues a client that must find nothing of its variant.
func (r *rig) waitFor(variant string) *Waiter[int] {
	r.t.Helper()
	w := &Waiter[int]{Variant: variant}
	if n, ok, err := r.Acquire(w); ok || err != nil {
		r.t.Fatalf("Acquire: connection %d, %v, %v; want to wait", n, ok, err)
	}
	return w
}

// leaseOf leases a connection of a variant that must be there.
func (r *rig) leaseOf(variant string) *Slot[int] {
	r.t.Helper()
	n, ok, err := r.Acquire(&Waiter[int]{Variant: variant})
	if !ok || err != nil {
		r.t.Fatalf("Acquire: %v, %v; want a connection of %q", ok, err, variant)
	}
	if got := r.slots[n].Variant(); got != variant {
		r.t.Fatalf("leased a connection of %q; want %q", got, variant)
	}
	return r.slots[n]
}

// work does what the pool's worker does until there is nothing left to do, with dials that succeed at once and connections
// that close at once. It returns which variants were dialed.
func (p *rigPool) work() (dialed []string) {
	p.rig.t.Helper()
	for range 100 {
		if n, ok := p.RetireSurplus(math.MinInt64); ok {
			p.rig.slots[n].Gone()
		} else if s, ok := p.Reserve(); ok {
			dialed = append(dialed, s.Variant())
			p.rig.filled(s)
		} else {
			return dialed
		}
	}
	p.rig.t.Fatal("the worker does not come to rest")
	return nil
}

// expectVariants compares how many of each variant are idle, and how many are to be warm.
func (p *rigPool) expectVariants(want ...string) {
	p.rig.t.Helper()
	var got []string
	for _, v := range p.Variants() {
		got = append(got, fmt.Sprintf("%s %d/%d", v.Variant, v.Idle, v.Warm))
	}
	if !slices.Equal(got, want) {
		p.rig.t.Errorf("idle and warm: %q; want %q", got, want)
	}
}

// A client gets a connection of its own variant and of no other, whichever are idle.
func TestVariantsAreApart(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(9, 2))
	p := r.pools[0]
	p.KeepWarm("en")
	if got := p.work(); !slices.Equal(got, []string{"en", "en"}) {
		t.Errorf("dialed %q", got)
	}
	ja, plain := r.waitFor("ja"), r.waitFor("")
	r.waiting(ja, plain)
	r.leaseOf("en")
	r.waiting(ja, plain)
	if got := p.work(); !slices.Equal(got[:2], []string{"ja", ""}) {
		t.Errorf("dialed %q; want those first who wait", got)
	}
	if s := r.handed(ja); s.Variant() != "ja" {
		t.Errorf("given a connection of %q", s.Variant())
	}
	if s := r.handed(plain); s.Variant() != "" {
		t.Errorf("given a connection of %q", s.Variant())
	}
}

// The warm connections are shared among the variants used last.
func TestWarmConnectionsAreShared(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(20, 5))
	p := r.pools[0]
	come := func(variant string) {
		t.Helper()
		r.clock++
		p.KeepWarm(variant)
		p.work()
	}
	if got := p.work(); got != nil {
		t.Errorf("dialed %q before anything is known", got)
	}
	come("a")
	p.expectVariants("a 5/5")
	come("b")
	p.expectVariants("a 5/3", "b 2/2")
	come("c")
	p.expectVariants("a 5/2", "b 2/2", "c 1/1")
	come("a") // to be the one used last does not move what is over: that would cost a dial with each lease
	p.expectVariants("a 5/2", "b 2/2", "c 1/1")
	come("d") // one too many: b was used longest ago
	p.expectVariants("a 5/2", "b 2/0", "c 2/2", "d 1/1")
	p.Set(varied(20, 2)) // too few for one each: those used last
	p.expectVariants("a 5/1", "b 2/0", "c 2/0", "d 1/1")
	r.clock = 100
	for range 8 { // what is not kept goes, the one used longest ago first
		n, ok := p.RetireSurplus(100)
		if !ok {
			t.Fatal("the surplus stays")
		}
		r.slots[n].Gone()
	}
	p.expectVariants("a 1/1", "c 0/0", "d 1/1")
	if _, ok := p.RetireSurplus(100); ok {
		t.Error("retired one that is to be warm")
	}
	r.leaseOf("a")
	if got := p.work(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("dialed %q; want another a", got)
	}
	p.Forget(50) // but for the one used last
	p.expectVariants("a 1/2", "d 1/0")
}

// When there is no room for what a client needs, the connection that was used longest ago makes some.
func TestDisplacement(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(3, 3), varied(3, 3))
	a, b := r.pools[0], r.pools[1]
	a.KeepWarm("en")
	b.KeepWarm("en")
	a.work()
	b.work()
	r.leaseOf("en")
	loaded, idle := a, b
	if b.Stats().Leased > 0 {
		loaded, idle = b, a
	}
	ja := r.waitFor("ja")
	if n, ok := loaded.RetireSurplus(math.MinInt64); ok {
		t.Errorf("connection %d of the more loaded backend makes room", n)
	}
	n, ok := idle.RetireSurplus(math.MinInt64)
	if !ok {
		t.Fatal("no connection makes room")
	}
	if oldest := r.slots[n]; oldest.State() != Retiring || idle.Stats().Totals.Reasons[Displaced] != 1 {
		t.Errorf("%v, %+v", oldest.State(), idle.Stats())
	}
	if n, ok := idle.RetireSurplus(math.MinInt64); ok {
		t.Errorf("connection %d makes room, too, for one client", n)
	}
	idle.reservesNone("dialed before there is room")
	r.expectSignals("Gone", []int{slices.Index(r.pools, idle)}, r.slots[n].Gone)
	s, ok := idle.Reserve()
	if !ok || s.Variant() != "ja" {
		t.Fatalf("dialed nothing for who waits: %v", ok)
	}
	if n, ok := idle.RetireSurplus(math.MinInt64); ok {
		t.Errorf("connection %d makes room for one that is being dialed", n)
	}
	r.filled(s)
	if r.handed(ja) != s {
		t.Error("given another connection")
	}
}

// Clients are dialed for in the order in which they came, whatever their variants.
func TestDemandInOrder(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, varied(9, 0))
	p := r.pools[0]
	for _, v := range []string{"a", "a", "b", "a", "", "b"} {
		r.waitFor(v)
	}
	var got []string
	for s, ok := p.Reserve(); ok; s, ok = p.Reserve() {
		got = append(got, s.Variant())
	}
	if want := []string{"a", "a", "b", "a", "", "b"}; !slices.Equal(got, want) {
		t.Errorf("dialed %q; want %q", got, want)
	}
}

// A client whose variant has no connection is passed by those whose variant has, but not for ever: where one connection is all
// that there may be, and a client always waits for the variant that it has.
func TestNoClientStarves(t *testing.T) {
	r := newRig(t, Options{Queue: 99}, varied(1, 1))
	p := r.pools[0]
	p.KeepWarm("en")
	p.work()
	session := r.leaseOf("en")
	first := r.waitFor("en")
	ja := r.waitFor("ja")
	served := 0
	for clients := []*Waiter[int]{first}; len(ja.ready) == 0; served++ {
		clients = append(clients, r.waitFor("en"))
		if served > 9 {
			t.Fatalf("passed by %d others", served)
		}
		giveBack(session)
		p.work()
		if len(clients[0].ready) == 1 {
			session = r.handed(clients[0])
			clients = clients[1:]
		}
	}
	if served != 1+maxOvertaken+1 {
		t.Errorf("served after %d others; want the one before it and %d that came later", served-1, maxOvertaken)
	}
	if s := r.handed(ja); s.Variant() != "ja" {
		t.Errorf("given a connection of %q", s.Variant())
	}
	// Those who were held back are served when it is their turn.
	giveBack(r.slots[len(r.slots)])
	p.work()
	if s := p.Stats(); s.Leased != 1 || r.slots[len(r.slots)].Variant() != "en" {
		t.Errorf("none of the others is served: %+v", s)
	}
}

// One who is held back is served when the one for whom it was has left.
func TestHeldBackUntilTheOtherLeaves(t *testing.T) {
	r := newRig(t, Options{Queue: 99}, varied(1, 1))
	r.maxOvertaken = 0
	p := r.pools[0]
	p.KeepWarm("en")
	p.work()
	session := r.leaseOf("en")
	ja, en := r.waitFor("ja"), r.waitFor("en")
	giveBack(session)
	r.waiting(ja, en)
	late := r.waitFor("en")
	r.Leave(ja, LeftEarly)
	if r.handed(en) != session {
		t.Error("given another connection")
	}
	r.waiting(late)
}

// A service without variants keeps none, even if a client names one: it gets its connection, and there are no more.
func TestVariantOfAServiceWithoutVariants(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, Settings{Cap: 3, Warm: 1, Weight: 1})
	p := r.pools[0]
	p.work()
	w := r.waitFor("en")
	if got := p.work(); !slices.Equal(got, []string{"en"}) {
		t.Errorf("dialed %q", got)
	}
	s := r.handed(w)
	p.expectVariants(" 1/1", "en 0/0")
	discard(s, Served)
	s.Gone()
	p.KeepWarm("ja")
	p.expectVariants(" 1/1")
}

// A ceiling is a cap for a while: what is too many goes, and comes back with the cap.
func TestCeiling(t *testing.T) {
	r := newRig(t, Options{}, Settings{Cap: 4, Warm: 4, Weight: 1})
	p := r.pools[0]
	session := p.lease(1)[0]
	p.work()
	p.expect(0, 3, 1, 0, 0)
	r.expectSignals("SetCeiling", []int{0}, func() { p.SetCeiling(2) })
	p.work()
	p.expect(0, 1, 1, 0, 0)
	if s := p.Stats(); s.Cap != 4 || s.Ceiling != 2 {
		t.Errorf("stats %+v; want a cap of 4 and a ceiling of 2", s)
	}
	p.Set(Settings{Cap: 2, Warm: 2, Weight: 1})
	if s := p.Stats(); s.Ceiling != 2 {
		t.Errorf("a ceiling of %d under a cap of 2", s.Ceiling)
	}
	p.Set(Settings{Cap: 4, Warm: 4, Weight: 1})
	p.work()
	p.expect(0, 1, 1, 0, 0)
	r.expectSignals("SetCeiling", []int{0}, func() { p.SetCeiling(0) })
	p.work()
	p.expect(0, 3, 1, 0, 0)
	p.SetCeiling(1)
	p.work()
	p.expect(0, 0, 1, 0, 0)
	if s := session.State(); s != Leased {
		t.Errorf("the session's connection is %v", s)
	}
}

// Leasing and returning connections of variants allocates nothing, either.
func TestLeaseOfVariantAllocatesNothing(t *testing.T) {
	r := newRig(t, Options{Queue: 1}, varied(4, 4))
	p := r.pools[0]
	p.KeepWarm("a")
	p.KeepWarm("b")
	p.work()
	a, b := &Waiter[int]{Variant: "a"}, &Waiter[int]{Variant: "b"}
	if n := testing.AllocsPerRun(1000, func() {
		x, _, _ := r.Acquire(a)
		y, _, _ := r.Acquire(b)
		r.slots[x].Return(a.Lease())
		r.slots[y].Return(b.Lease())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
