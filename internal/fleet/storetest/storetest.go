// Package storetest is the contract that every store of a fleet's ledger passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Place is where a test's stores keep their ledger. Each test gets a new one.
type Place struct {
	// Open opens one more store of the ledger. The test closes it.
	Open func(t testing.TB) fleet.Store
	// Restart makes the database another process with the same content; nil if there is no such thing.
	Restart func(t testing.TB)
}

// Run runs the contract's tests, or only those with the given names.
func Run(t *testing.T, newPlace func(t *testing.T) Place, only ...string) {
	tests := map[string]func(*testing.T, Place){
		"Alone":      alone,
		"Cap":        capHolds,
		"Release":    release,
		"Sequence":   sequence,
		"Quiet":      quiet,
		"Members":    members,
		"Leave":      leave,
		"Forget":     forget,
		"Dead":       dead,
		"Concurrent": concurrent,
		"Changed":    changed,
		"Restart":    restart,
		"Reopen":     reopen,
		"Closed":     closed,
		"BadReport":  badReport,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { tests[name](t, newPlace(t)) })
	}
}

// proxy is one that makes exchanges by hand.
type proxy struct {
	t        testing.TB
	store    fleet.Store
	id       fleet.ID
	sequence uint64
	epoch    fleet.Epoch
	version  int64
	sessions int
}

func id(n int) fleet.ID { return fleet.ID(fmt.Sprintf("%016x", n)) }

func join(t testing.TB, p Place, n int) *proxy {
	t.Helper()
	s := p.Open(t)
	t.Cleanup(func() { _ = s.Close() })
	return &proxy{t: t, store: s, id: id(n)}
}

// report returns the proxy's next report, which is whole if the proxy has no epoch.
func (p *proxy) report(claims map[string]fleet.Claim) *fleet.Report {
	p.sequence++
	return &fleet.Report{
		ID: p.id, Sequence: p.sequence, Epoch: p.epoch, Version: p.version, Whole: p.epoch == "", Claims: claims,
		About: fleet.Member{
			Name: "proxy-" + string(p.id[14:]), Version: "1.0", Schema: 10, Address: "http://127.0.0.1:1", Host: "h", Instance: "i",
			Started: time.Unix(1000, 0), State: fleet.Serving, Sessions: p.sessions, Config: "7",
		},
	}
}

func (p *proxy) try(r *fleet.Report) (*fleet.Answer, error) {
	a, err := p.store.Exchange(p.t.Context(), r)
	if err == nil && !a.Stale {
		p.epoch, p.version = a.Epoch, a.Version
	}
	return a, err
}

func (p *proxy) exchange(r *fleet.Report) *fleet.Answer {
	p.t.Helper()
	a, err := p.try(r)
	if err != nil {
		p.t.Fatalf("proxy %s: exchange %d: %v", p.id, r.Sequence, err)
	}
	return a
}

// claim makes an exchange with one claim, and returns the places that the ledger has for the proxy then.
func (p *proxy) claim(server string, c fleet.Claim) int {
	p.t.Helper()
	a := p.exchange(p.report(map[string]fleet.Claim{server: c}))
	return places(a.Accounts, server, p.id)
}

// beat makes an exchange without claims.
func (p *proxy) beat() *fleet.Answer {
	p.t.Helper()
	return p.exchange(p.report(nil))
}

// places returns what a proxy has at a server.
func places(accounts []fleet.Account, server string, id fleet.ID) int {
	for _, a := range accounts {
		if a.Server != server {
			continue
		}
		for _, g := range a.Grants {
			if g.Proxy == id {
				return g.Places
			}
		}
	}
	return 0
}

func accounts(t testing.TB, s fleet.Store) []fleet.Account {
	t.Helper()
	all, err := s.Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func member(t testing.TB, s fleet.Store, id fleet.ID) (fleet.Member, bool) {
	t.Helper()
	all, err := s.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(m fleet.Member) bool { return m.ID == id })
	if i < 0 {
		return fleet.Member{}, false
	}
	return all[i], true
}

const server = "ws://gpu-1:2700"

// alone: a proxy that is alone gets all places in its first exchange.
func alone(t *testing.T, place Place) {
	p := join(t, place, 1)
	if n := p.claim(server, fleet.Claim{Cap: 16, Needs: 1, Wants: 1, Share: 1.5}); n != 16 {
		t.Errorf("it got %d of 16 places", n)
	}
	a := p.beat()
	if a.Epoch == "" || !a.Settled || a.Frozen || len(a.Missing) > 0 || a.Again || a.Stale {
		t.Errorf("the answer to the next beat: %+v", a)
	}
	p.beat()
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
}

// release: all that one gives back, the other can have, at several servers in one exchange.
func release(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	claims := map[string]fleet.Claim{"ws://a": {Cap: 3, Needs: 3, Wants: 3}, "ws://b": {Cap: 5, Needs: 5, Wants: 5}}
	p.exchange(p.report(claims))
	q.exchange(q.report(claims))
	p.exchange(p.report(map[string]fleet.Claim{"ws://a": {}, "ws://b": {}}))
	a := q.beat()
	if x, y := places(a.Accounts, "ws://a", q.id), places(a.Accounts, "ws://b", q.id); x != 3 || y != 5 {
		t.Errorf("it got %d of 3 and %d of 5 places: %+v", x, y, a)
	}
	q.exchange(q.report(map[string]fleet.Claim{"ws://a": {}}))
	for _, a := range accounts(t, p.store) {
		if a.Server == "ws://a" && a.Granted() != 0 {
			t.Errorf("what nobody has any more: %+v", a)
		}
	}
}

// sequence: a report that arrives after a later one changes nothing, with or without claims, and not even the beats.
func sequence(t *testing.T, place Place) {
	p := join(t, place, 1)
	p.claim(server, fleet.Claim{Cap: 10, Needs: 2, Wants: 2})
	late := p.report(map[string]fleet.Claim{server: {Cap: 10, Holds: 1, Needs: 1, Wants: 1}})
	quietlyLate := p.report(nil)
	p.beat()
	before, _ := member(t, p.store, p.id)
	for _, r := range []*fleet.Report{late, quietlyLate, quietlyLate} {
		if a := p.exchange(r); !a.Stale {
			t.Errorf("report %d after a later one: %+v", r.Sequence, a)
		}
	}
	p.beat()
	after, _ := member(t, p.store, p.id)
	if after.Beats > before.Beats+1 {
		t.Errorf("stale reports were counted as beats: %d became %d", before.Beats, after.Beats)
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

// quiet: beats of several are counted and seen, and change nothing else. What a proxy says of itself may change in any of them.
func quiet(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 10})
	q.claim(server, fleet.Claim{Cap: 10})
	p.beat()
	last := p.beat()
	seen := make(map[uint64]bool)
	for n := range 5 {
		q.sessions = n
		q.beat()
		a := p.beat()
		if a.Version != last.Version || a.Epoch != last.Epoch || a.Frozen || a.Again || len(a.Accounts) > 0 {
			t.Errorf("beat %d: %+v", n, a)
		}
		i := slices.IndexFunc(a.Members, func(m fleet.Member) bool { return m.ID == q.id })
		if len(a.Members) != 2 || i < 0 {
			t.Fatalf("beat %d: the members are %+v", n, a.Members)
		}
		m := a.Members[i]
		if seen[m.Beats] || m.Sessions != n || m.Seen.IsZero() {
			t.Errorf("beat %d: the other is %+v", n, m)
		}
		seen[m.Beats] = true
	}
	r := q.report(nil)
	r.About.State, r.About.Config = fleet.Draining, "8"
	q.exchange(r)
	p.beat()
	if m, _ := member(t, p.store, q.id); m.State != fleet.Draining || m.Config != "8" {
		t.Errorf("a proxy that drains is %+v", m)
	}
}

// members: they are as they said of themselves, by name.
func members(t *testing.T, place Place) {
	q, p := join(t, place, 2), join(t, place, 1)
	q.claim(server, fleet.Claim{Cap: 1})
	p.sessions = 3
	p.claim(server, fleet.Claim{Cap: 1})
	all, err := p.store.Members(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if all[0].ID != p.id || all[1].ID != q.id {
		t.Errorf("the order is %s, %s", all[0].Name, all[1].Name)
	}
	m := all[0]
	if m.Seen.IsZero() || !m.Started.Equal(time.Unix(1000, 0)) || m.Epoch != p.epoch {
		t.Errorf("it was seen %v, started %v, with epoch %s", m.Seen, m.Started, m.Epoch)
	}
	m.Seen, m.Started, m.Beats, m.Epoch, m.Sequence = time.Time{}, time.Time{}, 0, "", 0
	want := fleet.Member{
		ID: p.id, Name: "proxy-01", Version: "1.0", Schema: 10, Address: "http://127.0.0.1:1", Host: "h", Instance: "i",
		State: fleet.Serving, Sessions: 3, Config: "7",
	}
	if m != want {
		t.Errorf("it is %+v, not %+v", m, want)
	}
}

// leave: who leaves is no member any more, and its places are free. A report of it that arrives later changes nothing.
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
	if n := places(q.beat().Accounts, server, q.id); n != 4 {
		t.Errorf("the other got %d of 4 places", n)
	}
}

// forget: an operator's word frees a proxy's places. When it comes back, it is told.
func forget(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	if err := q.store.Forget(t.Context(), id(9)); !errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("forgetting somebody unknown: %v", err)
	}
	if err := q.store.Forget(t.Context(), p.id); err != nil {
		t.Fatal(err)
	}
	if err := q.store.Forget(t.Context(), p.id); !errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("forgetting it again: %v", err)
	}
	if n := places(q.beat().Accounts, server, q.id); n != 4 {
		t.Errorf("the other got %d of 4 places", n)
	}
	a := p.beat()
	if !a.Again || !a.Forgotten {
		t.Errorf("who was forgotten and comes back: %+v", a)
	}
	r := p.report(map[string]fleet.Claim{server: {Cap: 4, Holds: 3, Needs: 3, Wants: 3}})
	r.Whole = true
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

// changed: who can give up places that another needs is told, and who needs them when they are free.
func changed(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Wants: 1})
	q.claim("ws://other", fleet.Claim{Cap: 4})
	ctx, cancel := context.WithCancel(t.Context())
	forP, forQ := p.store.Changed(ctx), q.store.Changed(ctx)
	told := func(c <-chan struct{}, what string, again func()) {
		t.Helper()
		for range 100 { // a store may have to connect before it can tell
			again()
			select {
			case <-c:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		t.Fatalf("%s was not told", what)
	}
	// Each turn makes the need another one, so that the account changes.
	need := 0
	told(forP, "who has idle places that another needs", func() {
		need = need%2 + 1
		q.claim(server, fleet.Claim{Cap: 4, Needs: need, Wants: need})
	})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 2, Wants: 2})
	holds := 4
	told(forQ, "who needs places that were given back", func() {
		holds = 7 - holds
		p.claim(server, fleet.Claim{Cap: 4, Holds: min(holds, 2), Wants: 1})
		if holds == 4 {
			q.claim(server, fleet.Claim{Cap: 4, Needs: 2, Wants: 2})
		}
	})
	cancel()
	for _, c := range []<-chan struct{}{forP, forQ} {
		timeout := time.After(20 * time.Second)
		for open := true; open; {
			select {
			case _, open = <-c:
			case <-timeout:
				t.Fatal("the channel was not closed when its context ended")
			}
		}
	}
}

// restart: another process of the database makes a new epoch, in which nothing is granted before all have said what they hold.
func restart(t *testing.T, place Place) {
	if place.Restart == nil {
		t.Skip("the store's identity is the machine's boot")
	}
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 8, Needs: 2, Wants: 2})
	p.claim(server, fleet.Claim{Cap: 8, Holds: 2, Needs: 2, Wants: 2})
	q.claim(server, fleet.Claim{Cap: 8, Needs: 2, Wants: 2})
	q.beat()
	former := p.epoch
	place.Restart(t)
	until(t, p, func(a *fleet.Answer) bool { return a.Epoch != former })
	whole := func(p *proxy, c fleet.Claim, settle bool) *fleet.Answer {
		r := p.report(map[string]fleet.Claim{server: c})
		r.Whole, r.Settle = true, settle
		return p.exchange(r)
	}
	a := whole(p, fleet.Claim{Cap: 8, Holds: 2, Needs: 8, Wants: 8}, false)
	if !a.Frozen || !slices.Equal(a.Missing, []fleet.ID{q.id}) || places(a.Accounts, server, p.id) != 2 {
		t.Errorf("before the other has said what it holds: %+v", a)
	}
	if a := whole(p, fleet.Claim{Cap: 8, Holds: 2, Needs: 8, Wants: 8}, true); !a.Frozen || !a.Settled {
		t.Errorf("settled, but before the other has said what it holds: %+v", a)
	}
	until(t, q, func(a *fleet.Answer) bool { return a.Epoch == p.epoch })
	if a := whole(q, fleet.Claim{Cap: 8, Holds: 5, Needs: 5, Wants: 5}, false); a.Frozen || places(a.Accounts, server, q.id) != 5 {
		t.Errorf("after all have said what they hold: %+v", a)
	}
	if n := p.claim(server, fleet.Claim{Cap: 8, Holds: 2, Needs: 8, Wants: 8}); n != 3 {
		t.Errorf("with 5 of 8 places taken, it got %d", n)
	}
}

// until makes exchanges, of which some may fail, until an answer is what is wanted.
func until(t testing.TB, p *proxy, ok func(*fleet.Answer) bool) {
	t.Helper()
	var err error
	for range 200 {
		var a *fleet.Answer
		if a, err = p.try(p.report(nil)); err == nil && ok(a) {
			return
		}
		if err != nil && !errors.Is(err, fleet.ErrUnreachable) {
			t.Logf("an exchange fails with another error than that the store cannot be reached: %v", err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	t.Fatalf("no such answer; the last error is %v", err)
}

// reopen: the ledger outlives its stores.
func reopen(t *testing.T, place Place) {
	q := join(t, place, 2)
	q.claim("ws://other", fleet.Claim{Cap: 1})
	s := place.Open(t)
	p := &proxy{t: t, store: s, id: id(1)}
	p.claim(server, fleet.Claim{Cap: 8, Needs: 2, Wants: 2})
	p.beat()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.store = place.Open(t)
	defer func() { _ = p.store.Close() }()
	if a := p.beat(); a.Again || a.Frozen {
		t.Errorf("after its store was opened again: %+v", a)
	}
	if n := places(accounts(t, p.store), server, p.id); n != 8 {
		t.Errorf("it has %d of 8 places", n)
	}
}

func closed(t *testing.T, place Place) {
	p := join(t, place, 1)
	p.claim(server, fleet.Claim{Cap: 8})
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Close(); err != nil {
		t.Errorf("closing it again: %v", err)
	}
	if _, err := p.try(p.report(nil)); err == nil {
		t.Error("a closed store carries out an exchange")
	}
	if _, err := p.store.Members(t.Context()); err == nil {
		t.Error("a closed store has members")
	}
	if _, err := p.store.Accounts(t.Context()); err == nil {
		t.Error("a closed store has accounts")
	}
	if err := p.store.Forget(t.Context(), p.id); err == nil || errors.Is(err, fleet.ErrUnknown) {
		t.Errorf("a closed store forgets: %v", err)
	}
	q := join(t, place, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.store.Exchange(ctx, q.report(nil)); err == nil {
		t.Error("an exchange whose context has ended was carried out")
	}
}

// badReport: what no ledger can keep is refused, and changes nothing.
func badReport(t *testing.T, place Place) {
	p := join(t, place, 1)
	p.claim(server, fleet.Claim{Cap: 8})
	for _, c := range []fleet.Claim{{Cap: -1}, {Cap: 1 << 40}, {Cap: 8, Holds: -1}, {Cap: 8, Share: -1}} {
		if _, err := p.store.Exchange(t.Context(), p.report(map[string]fleet.Claim{server: c})); err == nil {
			t.Errorf("the claim %+v was taken", c)
		}
	}
	if _, err := p.store.Exchange(t.Context(), &fleet.Report{Sequence: 1}); err == nil {
		t.Error("a report of nobody was taken")
	}
	if n := places(accounts(t, p.store), server, p.id); n != 8 {
		t.Errorf("it has %d of 8 places", n)
	}
}
