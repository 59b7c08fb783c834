package pool

import (
	"math"
	"testing"
)

// What the operator wants of a backend, and whether it is well, decide what can be leased, dialed and retired.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		name                           string
		set                            func(*rigPool)
		lease, reserve, trial, surplus bool
	}{
		{"enabled", func(p *rigPool) { p.SetMode(Enabled) }, true, true, true, false},
		{"draining", func(p *rigPool) { p.SetMode(Draining) }, false, false, false, false},
		{"disabled", func(p *rigPool) { p.SetMode(Disabled) }, false, false, false, true},
		{"enabled again", func(p *rigPool) { p.SetMode(Disabled); p.SetMode(Enabled) }, true, true, true, false},
		// Connections to a backend that is not well are dialed all the same, since they show when it is well again.
		{"unusable", func(p *rigPool) { p.SetUsable(false) }, false, true, true, false},
		{"usable again", func(p *rigPool) { p.SetUsable(false); p.SetUsable(true) }, true, true, true, false},
		// To be dialable is about clients that wait.
		{"undialable", func(p *rigPool) { p.SetDialable(false) }, true, true, true, false},
		{"weightless", func(p *rigPool) { p.Set(Settings{Cap: 4, Warm: 2}) }, false, true, true, false},
		{"disabled and unusable", func(p *rigPool) { p.SetMode(Disabled); p.SetUsable(false) }, false, false, false, true},
		{"removed", func(p *rigPool) { p.rig.Remove(p.Pool) }, false, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Queue: 1}, Settings{Cap: 4, Warm: 2, Weight: 1})
			p := r.pools[0]
			session := p.lease(1)[0]
			p.fill(1)
			c.set(p)
			if s := session.State(); s != Leased {
				t.Errorf("the session's connection is %v", s)
			}
			if s, ok := p.ReserveTrial(); ok != c.trial {
				t.Errorf("reserved for a trial: %v; want %v", ok, c.trial)
			} else if ok {
				s.Abandoned()
			}
			if s, ok := p.Reserve(); ok != c.reserve {
				t.Errorf("reserved: %v; want %v", ok, c.reserve)
			} else if ok {
				s.Abandoned()
			}
			n, ok := p.RetireSurplus(math.MinInt64)
			if ok != c.surplus {
				t.Errorf("retired as surplus: %d, %v; want %v", n, ok, c.surplus)
			}
			if c.surplus {
				if got := p.Stats().Totals.Reasons[Withdrawn]; got != 1 {
					t.Errorf("%d retired as withdrawn; want 1", got)
				}
				return
			}
			w := &Waiter[int]{}
			_, ok, err := r.Acquire(w)
			if ok != c.lease || err != nil {
				t.Errorf("leased: %v, %v; want %v", ok, err, c.lease)
			}
			giveBack(session) // to a client that waits, if there were one that may have it
			if s := session.State(); s != Idle {
				t.Errorf("the session's connection is %v; want idle", s)
			}
			if served := r.Queue().Waiting == 0; served != c.lease {
				t.Errorf("the client was served: %v; want %v", served, c.lease)
			}
		})
	}
}

// What a backend's mode forbids begins as soon as it is allowed again: for those who wait already.
func TestModeServesWhoWaits(t *testing.T) {
	for name, change := range map[string][2]func(p *rigPool){
		"mode":   {func(p *rigPool) { p.SetMode(Draining) }, func(p *rigPool) { p.SetMode(Enabled) }},
		"usable": {func(p *rigPool) { p.SetUsable(false) }, func(p *rigPool) { p.SetUsable(true) }},
		"weight": {func(p *rigPool) { p.Set(Settings{Cap: 4}) }, func(p *rigPool) { p.Set(capped(4)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Queue: 9}, capped(4))
			p := r.pools[0]
			p.fill(2)
			session := p.lease(1)[0]
			change[0](p)
			first, second, third := r.wait(), r.wait(), r.wait()
			giveBack(session) // it is not handed over, either
			r.slots[3].Withdraw(Lost)
			r.waiting(first, second, third)
			change[1](p)
			if got := []*Slot[int]{r.handed(first), r.handed(second)}; got[0] != r.slots[2] || got[1] != r.slots[1] {
				t.Errorf("handed over %d and %d; want 2 and 1, the ones used last", got[0].conn, got[1].conn)
			}
			r.waiting(third)
			p.expect(0, 0, 2, 0, 1)
			if got := p.Stats().Totals.Leased; got != 3 { // the session's was one
				t.Errorf("%d leases; want 3", got)
			}
		})
	}
}

// Connections of a pool that was removed are no longer leased, not even what is dialed or comes back later; it can be
// brought to its end, and the others continue.
func TestRemove(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(4), capped(1))
	p, other := r.pools[0], r.pools[1]
	session := p.lease(1)[0]
	p.fill(1)
	late := p.dial()
	r.Remove(p.Pool)
	w := r.wait()
	r.filled(late)
	giveBack(session)
	r.waiting(w)
	p.expect(0, 3, 0, 0, 0)
	for range 3 {
		n, ok := p.RetireOldest(Shutdown)
		if !ok {
			t.Fatal("an idle connection of a removed pool was not retired")
		}
		r.slots[n].Gone()
	}
	if s := p.Stats(); s.Used() != 0 {
		t.Errorf("at the end: %+v", s)
	}
	other.connect()
	r.handed(w)
	if len(r.Group.pools) != 1 {
		t.Errorf("%d pools in the group; want 1", len(r.Group.pools))
	}
	r.Remove(p.Pool) // again: it is not there
	if len(r.Group.pools) != 1 {
		t.Errorf("%d pools in the group; want 1", len(r.Group.pools))
	}
}

// A queue that is never empty does not keep a backend above a cap that was lowered: connections that come back are idle,
// and so surplus, until as many sessions are left as may be.
func TestCapLoweredWhileClientsWait(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(4))
	p := r.pools[0]
	sessions := p.lease(4)
	first, second := r.wait(), r.wait()
	p.Set(capped(2))
	giveBack(sessions[0])
	reset(sessions[1])
	giveBack(sessions[1])
	r.waiting(first, second)
	p.expect(0, 2, 2, 0, 0)
	if n, ok := p.RetireSurplus(math.MinInt64); !ok || r.slots[n] != sessions[0] {
		t.Errorf("retired %d, %v; want %d", n, ok, sessions[0].conn)
	}
	discard(sessions[2], Cut) // before sessions[1] was retired: now it fits, and serves
	if got := r.handed(first); got != sessions[1] {
		t.Errorf("handed over %d; want %d", got.conn, sessions[1].conn)
	}
	if n, ok := p.RetireSurplus(math.MinInt64); ok {
		t.Errorf("retired %d of a pool that is within its cap", n)
	}
	giveBack(sessions[3]) // no more than may be, with this one
	r.handed(second)
	p.expect(0, 0, 2, 0, 2)
}

// The same for idle connections that clients find, and for those that are dialed still.
func TestCapLoweredBeforeClientsCome(t *testing.T) {
	r := newRig(t, Options{Queue: 9}, capped(5))
	p := r.pools[0]
	sessions := p.lease(2)
	p.fill(2)
	dialing := p.dial()
	p.Set(capped(3))
	r.lease()
	w := r.wait()
	r.filled(dialing)
	r.waiting(w)
	p.Set(capped(4)) // as it was almost
	r.handed(w)
	last := r.wait()
	reset(sessions[0]) // it may serve again: it counts
	r.waiting(last)
	giveBack(sessions[0])
	r.handed(last)
	p.expect(0, 1, 4, 0, 0)
}
