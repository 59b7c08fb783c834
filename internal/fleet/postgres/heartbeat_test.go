package postgres

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// TestPulse makes exchanges of a ledger at rest with one short statement, and with the long one as soon as there is more to know.
func TestPulse(t *testing.T) {
	dsn := migrated(t)
	traced := new(counter)
	store, err := open(dsn, Options{}, traced)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	p, q := &proxy{t: t, store: store, id: "a"}, newProxy(t, dsn, "b")
	rests := func(what string, want bool) *fleet.Answer {
		t.Helper()
		a, err := p.report(false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Members == nil) != want {
			t.Errorf("%s: %d members in the answer", what, len(a.Members))
		}
		return a
	}
	settle := func() {
		t.Helper()
		p.claim(false, false, 0, 0)
		q.claim(false, false, 0, 0)
		p.claim(false, false, 0, 0)
		rests("at rest", true)
	}
	p.claim(true, false, 0, 0)
	q.claim(true, false, 0, 0)
	settle()

	for _, c := range []struct{ what, statement string }{
		{"b is not seen", "UPDATE wsbouncer.fleet_beats SET seen = seen - interval '1 hour' WHERE id = 'b'"},
		{"the server's clock was put back", "UPDATE wsbouncer.fleet_beats SET seen = seen + interval '1 hour' WHERE id = 'b'"},
	} {
		query(t, dsn, c.statement)
		counted := text(t, dsn, "SELECT beats FROM wsbouncer.fleet_beats WHERE id = 'a'")
		statements, writes := traced.statements.Load(), traced.changes.Load()
		rests(c.what, false)
		if statements, writes = traced.statements.Load()-statements, traced.changes.Load()-writes; statements != 2 || writes != 0 {
			t.Errorf("%s: a's exchange takes %d statements, of which %d write the ledger", c.what, statements, writes)
		}
		if after := text(t, dsn, "SELECT beats FROM wsbouncer.fleet_beats WHERE id = 'a'"); after == counted {
			t.Errorf("%s: a's heartbeat was not counted", c.what)
		}
		settle()
	}

	q.claim(false, false, 0, 9) // it lacks a place
	if a := rests("b has changed something", false); len(a.Accounts) != 1 {
		t.Errorf("a does not hear of it: %+v", a)
	}
	settle()
	query(t, dsn, "UPDATE wsbouncer.fleet SET identity = 'another'")
	if a := rests("the server is another", false); !a.Again {
		t.Errorf("no epoch begins: %+v", a)
	}
	if a := rests("a has not said what it holds", false); !a.Again {
		t.Errorf("a is not asked what it holds: %+v", a)
	}
}

// TestPulseSaysWhatIsNew: what a proxy says of itself is noted although nothing else has changed.
func TestPulseSaysWhatIsNew(t *testing.T) {
	p := newProxy(t, migrated(t), "a")
	p.claim(true, false, 0, 0)
	for range 2 {
		if _, err := p.report(false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.sequence++
	r := &fleet.Report{ID: p.id, Sequence: p.sequence, Epoch: p.epoch, Version: p.version, About: fleet.Member{Name: "a", State: fleet.Draining}}
	a, err := p.store.Exchange(t.Context(), r)
	if err != nil || len(a.Members) != 1 || a.Members[0].State != fleet.Draining {
		t.Errorf("a proxy that drains: %+v, %v", a, err)
	}
}
