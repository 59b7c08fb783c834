package fleettest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

const server = "ws://gpu-1:2700"

// alone: a proxy that is alone gets all places in its first exchange.
func alone(t *testing.T, place Place) {
	p := join(t, place, 1)
	if n := p.claim(server, fleet.Claim{Cap: 16, Needs: 1, Wants: 1, Share: 1.5}); n != 16 {
		t.Errorf("it got %d of 16 places", n)
	}
	a := p.heartbeat()
	if a.Epoch == "" || !a.Settled || a.Frozen || len(a.Missing) > 0 || a.Again || a.Stale {
		t.Errorf("the answer to the next beat: %+v", a)
	}
	p.heartbeat()
	all := accounts(t, p.store)
	want := fleet.Grant{Proxy: p.id, Places: 16, Claim: fleet.Claim{Cap: 16, Needs: 1, Wants: 1, Share: 1.5}}
	if len(all) != 1 || all[0].Server != server || all[0].Version == 0 || len(all[0].Grants) != 1 || all[0].Grants[0] != want {
		t.Errorf("the accounts are %+v, not one with %+v", all, want)
	}
}

// capHolds: two never have more than the cap, and the lower cap counts.
func capHolds(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	first := p.claim(server, fleet.Claim{Cap: 10, Needs: 10, Wants: 10})
	second := q.claim(server, fleet.Claim{Cap: 8, Needs: 10, Wants: 10})
	if first != 10 || second != 0 {
		t.Errorf("they got %d and %d of 10 places", first, second)
	}
	if n := p.claim(server, fleet.Claim{Cap: 10, Holds: 4, Needs: 4, Wants: 4}); n != 4 {
		t.Errorf("who gave 6 of 10 back has %d", n)
	}
	if n := q.claim(server, fleet.Claim{Cap: 8, Needs: 10, Wants: 10}); n != 4 {
		t.Errorf("with a cap of 8, of which 4 are taken, the other got %d", n)
	}
	p.claim(server, fleet.Claim{Cap: -10, Holds: 2, Needs: 2, Wants: 2})
	if n := q.claim(server, fleet.Claim{Cap: -8, Holds: 4, Needs: 10, Wants: 10}); n != 6 {
		t.Errorf("both drain, and with a cap of 8, of which 2 are taken, the other got %d", n)
	}
}

// release: all that one gives back, the other can have, at several servers in one exchange.
func release(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	claims := map[string]fleet.Claim{"ws://a": {Cap: 3, Needs: 3, Wants: 3}, "ws://b": {Cap: 5, Needs: 5, Wants: 5}}
	p.exchange(p.report(claims))
	q.exchange(q.report(claims))
	p.exchange(p.report(map[string]fleet.Claim{"ws://a": {}, "ws://b": {}}))
	a := q.heartbeat()
	if x, y := places(a.Accounts, "ws://a", q.id), places(a.Accounts, "ws://b", q.id); x != 3 || y != 5 {
		t.Errorf("it got %d of 3 and %d of 5 places: %+v", x, y, a)
	}
	q.exchange(q.report(map[string]fleet.Claim{"ws://a": {}}))
	for _, a := range accounts(t, p.store) {
		if a.Server == "ws://a" && a.Granted() != 0 {
			t.Errorf("what no proxy has now: %+v", a)
		}
	}
}

// sequence: a report that arrives after a later one changes nothing, with or without claims, and not even the beats.
func sequence(t *testing.T, place Place) {
	p := join(t, place, 1)
	p.claim(server, fleet.Claim{Cap: 10, Needs: 2, Wants: 2})
	late := p.report(map[string]fleet.Claim{server: {Cap: 10, Holds: 1, Needs: 1, Wants: 1}})
	quietlyLate := p.report(nil)
	p.heartbeat()
	before, _ := member(t, p.store, p.id)
	for _, r := range []*fleet.Report{late, quietlyLate, quietlyLate} {
		if a := p.exchange(r); !a.Stale {
			t.Errorf("report %d after a later one: %+v", r.Sequence, a)
		}
	}
	p.heartbeat()
	after, _ := member(t, p.store, p.id)
	if after.Heartbeats > before.Heartbeats+1 {
		t.Errorf("stale reports were counted as beats: %d became %d", before.Heartbeats, after.Heartbeats)
	}
	if n := places(accounts(t, p.store), server, p.id); n != 10 {
		t.Errorf("a stale report left %d of 10 places", n)
	}
	again := p.report(nil)
	p.exchange(again)
	if a := p.exchange(again); !a.Stale {
		t.Errorf("the same report again: %+v", a)
	}
}

// quiet: beats of several are counted and seen, and change nothing else. Not each answer names the members if nothing has changed. What a proxy
// says of itself may change in any of them.
func quiet(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 10})
	q.claim(server, fleet.Claim{Cap: 10})
	p.heartbeat()
	last := p.heartbeat()
	seen := make(map[uint64]bool)
	for n := range 30 {
		q.sessions = n
		q.heartbeat()
		a := p.heartbeat()
		if a.Version != last.Version || a.Epoch != last.Epoch || a.Frozen || a.Again || len(a.Accounts) > 0 {
			t.Errorf("beat %d: %+v", n, a)
		}
		if a.Members == nil {
			continue
		}
		i := slices.IndexFunc(a.Members, func(m fleet.Member) bool { return m.ID == q.id })
		if len(a.Members) != 2 || i < 0 {
			t.Fatalf("beat %d: the members are %+v", n, a.Members)
		}
		m := a.Members[i]
		if seen[m.Heartbeats] || m.Sessions != n || m.Seen.IsZero() {
			t.Errorf("beat %d: the other is %+v", n, m)
		}
		seen[m.Heartbeats] = true
	}
	if len(seen) < 3 {
		t.Errorf("of 30 answers, %d name the members", len(seen))
	}
	if m, _ := member(t, p.store, q.id); m.Sessions != 29 {
		t.Errorf("after 30 beats, the other is %+v", m)
	}
	r := q.report(nil)
	r.About.State, r.About.Config = fleet.Draining, "8"
	q.exchange(r)
	p.heartbeat()
	if m, _ := member(t, p.store, q.id); m.State != fleet.Draining || m.Config != "8" {
		t.Errorf("a proxy that drains is %+v", m)
	}
}

// concurrent: many make exchanges at once at several servers, and take and give back what they are given. The sum never exceeds the
// cap, in the ledger and in what they were told.
func concurrent(t *testing.T, place Place) {
	const proxies, rounds, most = 6, 12, 7
	servers := []string{"ws://a", "ws://b", "ws://c"}
	var (
		mu   sync.Mutex
		held = make(map[string]map[fleet.ID]int) // guarded by mu: what each may use
		all  sync.WaitGroup

		answered atomic.Int64
	)
	hold := func(server string, id fleet.ID, n int) {
		mu.Lock()
		defer mu.Unlock()
		if held[server] == nil {
			held[server] = make(map[fleet.ID]int)
		}
		held[server][id] = n
		sum := 0
		for _, n := range held[server] {
			sum += n
		}
		if sum > most {
			t.Errorf("%s: %v is more than %d", server, held[server], most)
		}
	}
	for n := range proxies {
		p := join(t, place, n+1)
		all.Go(func() {
			mine := make(map[string]int)
			for round := range rounds {
				claims := make(map[string]fleet.Claim)
				for i, server := range servers {
					need := (round*(n+1) + i) % (most + 1)
					if mine[server] > need {
						mine[server] = need
						hold(server, p.id, need) // before the ledger hears of it
					}
					claims[server] = fleet.Claim{Cap: most, Holds: mine[server], Needs: need, Wants: need}
				}
				a, err := p.try(p.report(claims))
				switch {
				case errors.Is(err, fleet.ErrUnreachable):
					continue // the machine is busy: it keeps what it holds
				case err != nil:
					t.Errorf("%s: %v", p.id, err)
					return
				}
				answered.Add(1)
				for _, server := range servers {
					mine[server] = places(a.Accounts, server, p.id)
					hold(server, p.id, mine[server])
				}
				if _, err := p.try(p.report(nil)); err != nil && !errors.Is(err, fleet.ErrUnreachable) {
					t.Errorf("%s: %v", p.id, err)
				}
			}
		})
	}
	all.Wait()
	if answered.Load() < proxies*rounds/2 {
		t.Errorf("only %d of %d exchanges were carried out", answered.Load(), proxies*rounds)
	}
	p := join(t, place, 99)
	for _, a := range accounts(t, p.store) {
		if a.Granted() > most {
			t.Errorf("%+v is more than %d", a, most)
		}
		for _, g := range a.Grants {
			mu.Lock()
			if held[a.Server][g.Proxy] > g.Places {
				t.Errorf("%s: %s holds %d, and the ledger has %d", a.Server, g.Proxy, held[a.Server][g.Proxy], g.Places)
			}
			mu.Unlock()
		}
	}
}

// badReport: what no ledger can keep is refused, and changes nothing.
func badReport(t *testing.T, place Place) {
	p := join(t, place, 1)
	p.claim(server, fleet.Claim{Cap: 8})
	for _, c := range []fleet.Claim{{Cap: -1 << 40}, {Cap: 1 << 40}, {Cap: 8, Holds: -1}, {Cap: 8, Share: -1}} {
		if _, err := p.store.Exchange(t.Context(), p.report(map[string]fleet.Claim{server: c})); err == nil {
			t.Errorf("the claim %+v was taken", c)
		}
	}
	if _, err := p.store.Exchange(t.Context(), &fleet.Report{Sequence: 1}); err == nil {
		t.Error("a report without a proxy was taken")
	}
	if n := places(accounts(t, p.store), server, p.id); n != 8 {
		t.Errorf("it has %d of 8 places", n)
	}
}

// emptied: a server that no proxy has now is forgotten, but not before others have heard that its places are gone.
func emptied(t *testing.T, place Place) {
	const gone = "ws://gone"
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(gone, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.heartbeat()
	p.claim(gone, fleet.Claim{})
	if a := q.heartbeat().Accounts; len(a) != 1 || a[0].Server != gone || !a[0].IsEmpty() {
		t.Errorf("the other is not told that the places are gone: %+v", a)
	}
	for i := range 150 { // each makes a version
		p.claim(server, fleet.Claim{Cap: 8 + i%2, Holds: 1, Needs: 1, Wants: 1})
	}
	if all := accounts(t, p.store); len(all) != 1 || all[0].Server != server {
		t.Errorf("the accounts are %+v, not only that of %s", all, server)
	}
	if n := q.claim(gone, fleet.Claim{Cap: 4, Needs: 4, Wants: 4}); n != 4 {
		t.Errorf("it got %d of 4 places when the server was back", n)
	}
}
