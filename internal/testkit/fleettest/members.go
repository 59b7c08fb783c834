package fleettest

import (
	"errors"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// members: they are as they said of themselves, by name.
func members(t *testing.T, place Place) {
	q, p := join(t, place, 2), join(t, place, 1)
	q.claim(server, fleet.Claim{Cap: 1})
	p.sessions = 3
	p.claim(server, fleet.Claim{Cap: 1})
	all := ledger(t, p.store).ByName()
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	if all[0].ID != p.id || all[1].ID != q.id {
		t.Errorf("the order is %s, %s", all[0].Name, all[1].Name)
	}
	m := all[0]
	if m.Seen.IsZero() || !m.Started.Equal(time.Unix(1000, 0)) || m.Epoch != p.epoch {
		t.Errorf("it was seen %v, started %v, with epoch %s", m.Seen, m.Started, m.Epoch)
	}
	m.Seen, m.Started, m.Heartbeats, m.Epoch, m.Sequence = time.Time{}, time.Time{}, 0, "", 0
	want := fleet.Member{
		ID: p.id, Name: "proxy-01", Version: "1.0", Schema: 10, Address: "http://127.0.0.1:1", Host: "h", Instance: "i",
		State: fleet.Serving, Sessions: 3, Config: "7",
	}
	if m != want {
		t.Errorf("it is %+v, not %+v", m, want)
	}
}

// leave: a proxy that leaves is not a member, and its places are free. A report of it that arrives later changes nothing.
func leave(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	late := p.report(map[string]fleet.Claim{server: {Cap: 4, Holds: 4, Needs: 4, Wants: 4}})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	r := p.report(nil)
	r.Leaves = true
	p.exchange(r)
	if _, ok := member(t, q.store, p.id); ok {
		t.Error("who has left is still a member")
	}
	if a := p.exchange(late); !a.Stale && !a.Again {
		t.Errorf("a report from before: %+v", a)
	}
	if n := places(q.heartbeat().Accounts, server, q.id); n != 4 {
		t.Errorf("the other got %d of 4 places", n)
	}
}

// forget: an operator's word frees a proxy's places. When it comes back, it is told.
func forget(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	if err := q.store.Forget(t.Context(), id(9)); !errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("forgetting an unknown proxy: %v", err)
	}
	if err := q.store.Forget(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	if err := q.store.Forget(t.Context(), p.id); !errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("forgetting it again: %v", err)
	}
	if n := places(q.heartbeat().Accounts, server, q.id); n != 4 {
		t.Errorf("the other got %d of 4 places", n)
	}
	a := p.heartbeat()
	if !a.Again || !a.Forgotten {
		t.Errorf("who was forgotten and comes back: %+v", a)
	}
	r := p.report(map[string]fleet.Claim{server: {Cap: 4, Holds: 3, Needs: 3, Wants: 3}})
	r.Full = true
	p.exchange(r)
	if n := places(accounts(t, q.store), server, p.id); n != 3 {
		t.Errorf("what it still uses is booked as %d, not 3, beyond the cap", n)
	}
	if n := q.claim(server, fleet.Claim{Cap: 4, Holds: 4, Needs: 9, Wants: 9}); n != 4 {
		t.Errorf("beyond the cap, the other got %d", n)
	}
}

// dead: a proven death frees places.
func dead(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	r := q.report(nil)
	r.Dead = []fleet.Death{{ID: p.id, Proven: true}}
	if n := places(q.exchange(r).Accounts, server, q.id); n != 4 {
		t.Errorf("the other got %d of 4 places", n)
	}
	if _, ok := member(t, q.store, p.id); ok {
		t.Error("who is dead is still a member")
	}
}
