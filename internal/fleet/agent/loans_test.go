package agent

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest/memory"
)

// followers are two processes of one host, the first of which drains, and a proxy elsewhere. The servers gpu and gpu2 have 10 places each.
type followers struct {
	db              *memory.Database
	old, next, away *proxy
}

// follow starts them. The old one has 4 sessions at each server, and the next one none.
func follow(t *testing.T) *followers {
	t.Helper()
	f := &followers{db: memory.New()}
	begin := func(name, instance string) *proxy {
		p := start(t, f.db, name, func(o *Options) {
			about := o.About
			o.About = func() fleet.Member {
				m := about()
				m.Instance = instance
				return m
			}
		})
		p.pools.setCap("gpu2", 10)
		return p
	}
	f.old = begin("a", "host")
	f.old.pools.need("gpu", 4)
	f.old.pools.need("gpu2", 4)
	wait(3 * time.Second)
	f.next = begin("b", "host")
	f.away = begin("c", "elsewhere")
	for _, p := range []*proxy{f.next, f.away} {
		p.pools.need("gpu", 3)
		p.pools.need("gpu2", 3)
	}
	wait(5 * time.Second)
	one, two := net.Pipe()
	f.old.Lend(one)
	f.next.Lend(two)
	f.next.pools.need("gpu2", 0)
	f.old.state.Store("state", fleet.Draining)
	f.old.Poke()
	wait(time.Second)
	f.check(t)
	return f
}

// check counts the connections to each server, and those that the pools may open.
func (f *followers) check(t *testing.T) {
	t.Helper()
	for _, server := range []string{"gpu", "gpu2"} {
		sum := 0
		for _, p := range []*proxy{f.old, f.next, f.away} {
			if !p.ended {
				p.pools.mu.Lock()
				sum += max(p.pools.used[server], p.pools.grants[server])
				p.pools.mu.Unlock()
			}
		}
		if sum > 10 {
			t.Errorf("%s may have %d connections; its cap is 10\n%s", server, sum, f.old.log)
		}
	}
}

// die kills a process: its connections are gone, and its locks are free.
func (f *followers) die(p *proxy) {
	p.ended = true
	p.kill()
	p.pools.need("gpu", 0)
	p.pools.need("gpu2", 0)
}

// TestLend has a draining process lose a server while the database is away: its sessions there continue with places that its successor lends it, which
// are not counted twice when the database is back.
func TestLend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t)
		f.db.Fail(fleet.ErrUnreachable)
		wait(2 * time.Second)
		f.old.pools.need("gpu", 0)
		f.old.pools.need("gpu2", 6)
		wait(500 * time.Millisecond)
		if n := f.old.pools.uses("gpu2"); n != 6 {
			t.Errorf("%d sessions continue; want 6\n%s\n%s", n, f.old.log, f.next.log)
		}
		f.check(t)
		f.old.logged(t, "places borrowed")
		f.next.logged(t, "places lent")

		f.db.Restart()
		f.db.Fail(nil)
		f.away.pools.need("gpu2", 4)
		for range 100 {
			wait(100 * time.Millisecond)
			f.check(t)
		}
		if old, away := f.old.pools.uses("gpu2"), f.away.pools.uses("gpu2"); old != 6 || away != 4 {
			t.Errorf("the old process uses %d places and the one elsewhere %d; want 6 and 4", old, away)
		}
		f.old.pools.need("gpu2", 0)
		if !f.old.leaves() {
			t.Errorf("it could not leave\n%s", f.old.log)
		}
		f.old.ended = true
		f.away.pools.need("gpu2", 10)
		wait(3 * time.Second)
		if n := f.away.pools.uses("gpu2"); n != 10 {
			t.Errorf("the proxy elsewhere uses %d places when no other wants any; want 10", n)
		}
		f.next.pools.need("gpu", 0)
		f.next.leaves()
		f.away.pools.need("gpu", 0)
		f.away.pools.need("gpu2", 0)
		f.away.leaves()
	})
}

// TestLenderIsKilled has the lender killed before the database is back: no proxy gets what it has lent while the borrower uses it.
func TestLenderIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t)
		f.old.cut.Store(true) // but not the others
		f.next.cut.Store(true)
		wait(2 * time.Second)
		f.old.pools.need("gpu2", 6)
		wait(500 * time.Millisecond)
		if n := f.old.pools.uses("gpu2"); n != 6 {
			t.Fatalf("%d sessions continue; want 6\n%s\n%s", n, f.old.log, f.next.log)
		}
		if held := f.old.presence.held.Load(); held != string(f.next.o.Holder.ID) {
			t.Errorf("the end of %q cannot be proven; want the lender's", held)
		}
		f.die(f.next)
		f.away.presence.set(f.next.o.Holder.ID, true)
		f.away.pools.need("gpu2", 4)
		for range 100 {
			wait(100 * time.Millisecond)
			f.check(t)
		}
		f.old.cut.Store(false)
		f.old.presence.set(f.next.o.Holder.ID, true)
		for range 100 {
			wait(100 * time.Millisecond)
			f.check(t)
		}
		if old, away := f.old.pools.uses("gpu2"), f.away.pools.uses("gpu2"); old != 6 || away != 4 {
			t.Errorf("the old process uses %d places and the one elsewhere %d; want 6 and 4", old, away)
		}
		if held := f.old.presence.held.Load(); held != "" {
			t.Errorf("the end of %q still cannot be proven", held)
		}
		for _, p := range []*proxy{f.old, f.away} {
			p.pools.need("gpu", 0)
			p.pools.need("gpu2", 0)
			p.leaves()
		}
	})
}

// TestBorrowerIsKilled gives the lender back what is no longer used, when the ledger no longer knows the borrower.
func TestBorrowerIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t)
		f.db.Fail(fleet.ErrUnreachable)
		wait(2 * time.Second)
		f.old.pools.need("gpu2", 6)
		wait(500 * time.Millisecond)
		f.die(f.old)
		f.next.pools.need("gpu2", 9)
		wait(5 * time.Second)
		f.check(t)
		f.db.Fail(nil)
		f.next.presence.set(f.old.o.Holder.ID, true)
		for range 100 {
			wait(100 * time.Millisecond)
			f.check(t)
		}
		if n := f.next.pools.uses("gpu2"); n != 7 { // the third proxy needs 3
			t.Errorf("the lender uses %d places; want 7\n%s", n, f.next.log)
		}
		for _, p := range []*proxy{f.next, f.away} {
			p.pools.need("gpu", 0)
			p.pools.need("gpu2", 0)
			if !p.leaves() {
				t.Errorf("%s could not leave\n%s", p.o.Holder.ID, p.log)
			}
		}
	})
}
