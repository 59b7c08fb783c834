package fleettest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// changed: who can give up places that another needs is told, and who needs them when they are free.
func changed(t *testing.T, place Place) {
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Wants: 1})
	q.claim("ws://other", fleet.Claim{Cap: 4})
	ctx, cancel := context.WithCancel(t.Context())
	forP, forQ := p.store.Changed(ctx), q.store.Changed(ctx)
	told := func(c <-chan struct{}, what string, again func()) {
		t.Helper()
		for range 300 { // a store may have to connect before it can tell
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
	if !p.store.Notifies() {
		t.Error("the store has told of a change, and says that it does not")
	}
	// Each turn takes all places for p and gives two of them back, since q may not have been listening at the turn before.
	told(forQ, "who needs places that were given back", func() {
		q.claim(server, fleet.Claim{Cap: 4})
		p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
		p.claim(server, fleet.Claim{Cap: 4, Holds: 4, Needs: 4, Wants: 4})
		q.claim(server, fleet.Claim{Cap: 4, Needs: 2, Wants: 2})
		p.claim(server, fleet.Claim{Cap: 4, Holds: 2, Wants: 1})
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
	q.heartbeat()
	former := p.epoch
	place.Restart(t)
	until(t, p, func(a *fleet.Answer) bool { return a.Epoch != former })
	whole := func(p *proxy, c fleet.Claim, settle bool) *fleet.Answer {
		r := p.report(map[string]fleet.Claim{server: c})
		r.Full, r.Settle = true, settle
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

// forgetAfterRestart: a proxy is forgotten before any has made an exchange with another process of the database. That begins a new epoch, too, and
// does not hide that the database has lost commits: who has seen more of the ledger is asked for the others that it knew.
func forgetAfterRestart(t *testing.T, place Place) {
	if place.Restart == nil {
		t.Skip("the store's identity is the machine's boot")
	}
	p, q := join(t, place, 1), join(t, place, 2)
	p.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.claim(server, fleet.Claim{Cap: 4, Needs: 4, Wants: 4})
	q.heartbeat()
	place.Restart(t)
	var err error
	for range 200 { // the connections to the former process fail first
		if err = q.store.Forget(t.Context(), p.id); !errors.Is(err, fleet.ErrUnreachable) {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := member(t, q.store, p.id); ok {
		t.Error("who was forgotten is still a member")
	}
	former := q.epoch
	seen := q.report(nil)
	seen.Version++ // of a commit that is lost
	if a := q.exchange(seen); a.Epoch == former || a.Settled || !a.Frozen || !a.Again || !a.Lost {
		t.Errorf("the answer to one that has seen more of the former epoch than there is: %+v", a)
	}
	r := q.report(map[string]fleet.Claim{server: {Cap: 4, Needs: 4, Wants: 4}})
	r.Full, r.Settle = true, true
	r.Others = []fleet.Member{{ID: p.id, Name: "proxy-01"}, {ID: id(3), Name: "proxy-03"}}
	if a := q.exchange(r); !a.Frozen || !slices.Equal(a.Missing, []fleet.ID{id(3)}) || places(a.Accounts, server, q.id) != 0 {
		t.Errorf("the ledger does not wait for the one that the other knew and that was not forgotten: %+v", a)
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
	p.heartbeat()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.store = place.Open(t)
	defer func() { _ = p.store.Close() }()
	if a := p.heartbeat(); a.Again || a.Frozen {
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
	if _, err := p.store.Ledger(t.Context()); err == nil {
		t.Error("a closed store has a ledger")
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
