package agent

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest/memory"
)

func (p *proxy) expect(t *testing.T, used int, mode Mode) {
	t.Helper()
	if got, is := p.pools.uses("gpu"), p.Status().Mode; got != used || is != mode {
		t.Errorf("%s uses %d places, mode %s; want %d, %s\n%s", p.o.Holder.ID, got, is, used, mode, p.log)
	}
}

func (p *proxy) logged(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n := p.log.count(text); n != 1 {
			t.Errorf("%s logged %q %d times; want once:\n%s", p.o.Holder.ID, text, n, p.log)
		}
	}
}

// TestAlone gives a single proxy all places.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := start(t, db, "a", nil)
		defer a.leaves()
		wait(100 * time.Millisecond)
		a.pools.need("gpu", 10)
		a.expect(t, 10, Alone)
		a.logged(t, "no other proxy is there")
		if s := a.Status(); len(s.Members) != 1 || s.Limits["gpu"] != 10 || s.Line() != "" || len(s.Accounts) != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAloneOnOneHost makes no exchange while a proxy is alone in a local ledger, and then begins again when another comes.
func TestAloneOnOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		local := func(o *Options) { o.Local = true }
		a := start(t, db, "a", local)
		defer a.leaves()
		wait(3 * time.Second)
		before, told := db.Counts(), a.pools.tellings()
		a.pools.need("gpu", 7)
		wait(time.Minute)
		if after := db.Counts(); after != before || a.pools.tellings() != told {
			t.Errorf("%+v exchanges; want %+v", after, before)
		}
		a.expect(t, 7, Alone)
		a.pools.setCap("gpu", 12)
		a.pools.need("gpu", 12)
		wait(time.Second)
		a.expect(t, 12, Alone)
		b := start(t, db, "b", local)
		defer b.leaves()
		b.pools.setCap("gpu", 12)
		b.pools.need("gpu", 6)
		wait(4 * time.Second)
		if sum := a.pools.uses("gpu") + b.pools.uses("gpu"); sum != 12 || b.pools.uses("gpu") == 0 {
			t.Errorf("a has %d places and b %d\n%s\n%s", a.pools.uses("gpu"), b.pools.uses("gpu"), a.log, b.log)
		}
		a.expect(t, a.pools.uses("gpu"), Shared)
	})
}

// TestMovesInTime moves places within two seconds wherever the proxies' heartbeats are: the other hears of the need with its next heartbeat, and this
// one of what the other has given back with its own.
func TestMovesInTime(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			a, b := start(t, db, "a", nil), start(t, db, "b", nil)
			wait(3 * time.Second)
			a.pools.need("gpu", 8)
			wait(2 * time.Second)
			a.pools.need("gpu", 1)
			b.pools.need("gpu", 9)
			wait(2 * time.Second)
			b.expect(t, 9, Shared)
			a.pools.need("gpu", 0)
			b.pools.need("gpu", 0)
			a.leaves()
			b.leaves()
		})
	}
}

// TestPokedAfterExchange reports what clients need soon after an exchange as soon as the gap allows, also if it takes time to read how the pools use the
// servers: otherwise it would wait for the next heartbeat.
func TestPokedAfterExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer a.leaves()
		defer b.leaves()
		a.pools.takes.Store(int64(time.Millisecond))
		b.pools.need("gpu", 3)
		wait(3 * time.Second)
		a.Sync(t.Context())
		a.pools.need("gpu", 10)
		wait(gap + 10*time.Millisecond)
		l, err := db.Store().Ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range l.Accounts["gpu"].Grants {
			if g.Proxy == a.o.Holder.ID && g.Claim.Needs != 10 {
				t.Errorf("the ledger hears that a needs %d places; want 10", g.Claim.Needs)
			}
		}
		a.pools.need("gpu", 0)
		b.pools.need("gpu", 0)
	})
}

// TestPlacesMove moves places to where they are needed, within two seconds.
func TestPlacesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		wait(3 * time.Second)
		a.pools.need("gpu", 8)
		wait(2 * time.Second)
		a.expect(t, 8, Shared)
		a.pools.need("gpu", 1)
		b.pools.need("gpu", 9)
		wait(2 * time.Second)
		a.expect(t, 1, Shared)
		b.expect(t, 9, Shared)
		a.pools.need("gpu", 0)
		a.leaves()
		b.pools.need("gpu", 10)
		wait(2 * time.Second)
		b.expect(t, 10, Alone)
		b.logged(t, "a proxy is gone from the fleet", "alone in the fleet")
		a.logged(t, "left the fleet: all places are given back")
		b.leaves()
	})
}

// TestLeave says whether the ledger has forgotten a proxy that ends: otherwise others must be able to prove its end.
func TestLeave(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*proxy)
		want   bool
	}{
		"in order":            {func(*proxy) { wait(3 * time.Second) }, true},
		"without the ledger":  {func(p *proxy) { wait(3 * time.Second); p.cut.Store(true) }, false},
		"never with it":       {func(p *proxy) { p.cut.Store(true); wait(3 * time.Second) }, false},
		"with connections":    {func(p *proxy) { wait(3 * time.Second); p.pools.need("gpu", 3); wait(time.Second) }, false},
		"the ledger was back": {func(p *proxy) { wait(3 * time.Second); p.cut.Store(true); wait(9 * time.Second); p.cut.Store(false) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, memory.New(), "a", nil)
				c.before(p)
				if left := p.leaves(); left != c.want {
					t.Errorf("left: %v, want %v\n%s", left, c.want, p.log)
				}
			})
		})
	}
}

// TestKilled frees the places of a proxy that is proven dead within five seconds, and not before.
func TestKilled(t *testing.T) {
	for _, proven := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			a, b := start(t, db, "a", nil), start(t, db, "b", nil)
			defer b.leaves()
			wait(3 * time.Second)
			a.pools.need("gpu", 8)
			wait(3 * time.Second)
			a.kill()
			free := 10 - a.Status().Limits["gpu"]
			b.presence.set(a.o.Holder.ID, proven)
			b.pools.need("gpu", 10)
			wait(2 * time.Second)
			b.expect(t, free, Shared)
			wait(3 * time.Second)
			b.logged(t, "a proxy is not seen")
			if !proven {
				wait(time.Hour)
				b.expect(t, free, Shared)
				return
			}
			b.expect(t, 10, Alone)
			b.logged(t, `msg="a proxy is dead: its places are free" proxy=a`, "a test says so")
		})
	}
}

// TestWronglyProven: a proxy that a firewall has spoken for while it was cut off is a member again, for good, as soon as it reaches the ledger.
func TestWronglyProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer b.leaves()
		defer a.leaves()
		wait(3 * time.Second)
		a.pools.need("gpu", 8)
		wait(3 * time.Second)
		for i := range 2 {
			a.cut.Store(true)
			b.presence.set(a.o.Holder.ID, true)
			wait(6 * time.Second)
			b.expect(t, 0, Alone)
			b.presence.set(a.o.Holder.ID, false)
			a.cut.Store(false)
			wait(time.Minute)
			if n := a.log.count("this proxy was taken for dead"); n != i+1 {
				t.Errorf("it was taken for dead %d times, want %d:\n%s", n, i+1, a.log)
			}
		}
		a.pools.need("gpu", 0)
	})
}

// TestCrowd: a large fleet makes fewer exchanges. Places still move within two seconds, and those of a proxy that is proven dead are free within
// five.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		db := memory.New()
		var all []*proxy
		for i := range n {
			all = append(all, start(t, db, fmt.Sprintf("p%02d", i), nil))
		}
		wait(20 * time.Second)
		before := db.Counts().Exchanges
		wait(20 * time.Second)
		if each := float64(db.Counts().Exchanges-before) / n / 20; each < 0.5 || each > 0.65 {
			t.Errorf("each proxy makes %.2f exchanges a second; want one in 1.6 to 1.9 s", each)
		}
		a, b := all[0], all[1]
		a.pools.need("gpu", 10)
		wait(2 * time.Second)
		a.expect(t, 10, Shared)
		a.pools.need("gpu", 1)
		b.pools.need("gpu", 9)
		wait(2 * time.Second)
		b.expect(t, 9, Shared)
		b.kill()
		for _, p := range all {
			p.presence.set(b.o.Holder.ID, true)
		}
		a.pools.need("gpu", 10)
		wait(5 * time.Second)
		a.expect(t, 10, Shared)
		for _, p := range all {
			p.pools.need("gpu", 0)
			if p != b {
				p.leaves()
			}
		}
	})
}

// TestLostExchange: a proxy that is dead stays so in the log of one that has lost an exchange, and is not seen again.
func TestLostExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer a.leaves()
		wait(3 * time.Second)
		b.kill()
		wait(10 * time.Second)
		a.cut.Store(true)
		wait(fleet.HeartbeatInterval)
		a.cut.Store(false)
		wait(10 * time.Second)
		a.logged(t, "a proxy is not seen")
		if n := a.log.count("is seen again"); n != 0 {
			t.Errorf("a dead proxy is seen again:\n%s", a.log)
		}
	})
}

// TestForget frees the places of a proxy when an operator says so.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer b.leaves()
		wait(3 * time.Second)
		a.pools.need("gpu", 8)
		wait(3 * time.Second)
		a.kill()
		b.pools.need("gpu", 10)
		wait(time.Minute)
		b.expect(t, 10-a.Status().Limits["gpu"], Shared)
		if err := b.Forget(t.Context(), a.o.Holder.ID); err != nil {
			t.Error(err)
		}
		wait(2 * time.Second)
		b.expect(t, 10, Alone)
	})
}

// TestGrantTimeout takes a proxy's places after the grant time-out, and says so. The proxy itself dials no server from then on.
func TestGrantTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		limited := func(o *Options) { o.Holder.Timeout = 20 * time.Second }
		a := start(t, db, "a", limited)
		b := start(t, db, "b", limited)
		defer b.leaves()
		wait(3 * time.Second)
		a.pools.need("gpu", 8)
		wait(3 * time.Second)
		a.cut.Store(true)
		a.pools.need("gpu", 3)
		b.pools.need("gpu", 10)
		wait(30 * time.Second)
		b.expect(t, 10, Alone)
		b.logged(t, "assumed to be dead")
		a.pools.need("gpu", 8)
		wait(time.Second)
		a.expect(t, 3, Shared)
		a.logged(t, "the ledger was not reached for grant-timeout", "the ledger is lost")
		a.cut.Store(false)
		wait(4 * time.Second)
		a.logged(t, "the ledger is back", "this proxy was taken for dead", `msg="more places are granted than the cap`, "grants are back within the cap")
		b.logged(t, `msg="more places are granted than the cap`)
		if n := a.log.count("the database was restarted"); n != 0 {
			t.Errorf("the database was not restarted:\n%s", a.log)
		}
		a.pools.need("gpu", 0)
		a.leaves()
	})
}

// TestStopped stops a proxy for longer than the grant time-out. When it runs again, it may dial no server, even before its agent has run.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		stopped := new(atomic.Int64) // by the clock
		a := start(t, db, "a", func(o *Options) {
			o.Holder.Timeout = 20 * time.Second
			now := o.Now
			o.Now = func() fleet.Instant { return now() + fleet.Instant(stopped.Load()) }
		})
		defer a.leaves()
		if !a.MayDial() {
			t.Error("before the first answer it may not dial what it may use without the ledger")
		}
		wait(3 * time.Second)
		stopped.Store(int64(19 * time.Second))
		if !a.MayDial() {
			t.Error("it may not dial before its grant time-out")
		}
		stopped.Store(int64(time.Hour))
		if a.MayDial() {
			t.Error("it may dial although others may have its places")
		}
		wait(3 * time.Second)
		if !a.MayDial() {
			t.Error("it may not dial after an answer")
		}
		db.Fail(fleet.ErrUnreachable)
		wait(time.Minute)
		if a.MayDial() {
			t.Error("it may dial without an answer for the grant time-out")
		}
		db.Fail(nil)
		wait(5 * time.Second)
		if !a.MayDial() {
			t.Error("it may not dial after the ledger is back")
		}
	})
}

// TestLedgerLost keeps what a proxy has while the ledger is away, and says once that it is lost, and that it is back.
func TestLedgerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer a.leaves()
		defer b.leaves()
		wait(3 * time.Second)
		a.pools.need("gpu", 5)
		b.pools.need("gpu", 3)
		wait(3 * time.Second)
		db.Fail(fmt.Errorf("%w: connection refused", fleet.ErrUnreachable))
		wait(time.Minute)
		a.expect(t, 5, Shared)
		b.expect(t, 3, Shared)
		if s := a.Status(); s.Problem == "" || s.Line() == "" || s.Lost.IsZero() {
			t.Errorf("%+v", s)
		}
		db.FailOver(2)
		db.Fail(nil)
		wait(3 * time.Second)
		if s := a.Status(); !s.Frozen || s.Problem != "" {
			t.Errorf("%+v\n%s", s, a.log)
		}
		wait(10 * time.Second)
		if s := a.Status(); s.Frozen {
			t.Errorf("%+v", s)
		}
		b.pools.need("gpu", 5)
		wait(2 * time.Second)
		b.expect(t, 5, Shared)
		a.logged(t, "the ledger is lost", "the ledger is back", "no places are granted until all proxies have said", "the database was restarted or replaced", "places are granted again")
	})
}

// TestUnreachableAtTheStart gives a proxy no place that others may have, or as many as its operator chose.
func TestUnreachableAtTheStart(t *testing.T) {
	for _, without := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			db.Fail(fleet.ErrUnreachable)
			a := start(t, db, "a", func(o *Options) { o.Holder.Without = without })
			defer a.leaves()
			a.pools.need("gpu", 10)
			wait(time.Minute)
			a.expect(t, without, Waiting)
			a.logged(t, "the ledger is not reached")
			db.Fail(nil)
			wait(6 * time.Second)
			a.expect(t, 10, Alone)
		})
	}
}

// TestAloneBefore starts a proxy while the ledger is away. One that was always alone uses the whole caps, as they change, and
// says what it risks; when the ledger is back, it has what it uses there. One that was in a fleet waits, and so does one beside another process.
func TestAloneBefore(t *testing.T) {
	for _, test := range []struct{ alone, beside bool }{{true, false}, {false, false}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			db.Fail(fleet.ErrUnreachable)
			m := new(remembered)
			m.alone.Store(test.alone)
			a := start(t, db, "a", func(o *Options) {
				o.Memory = m
				o.Presence.(*presence).with.Store(test.beside)
			})
			a.pools.need("gpu", 10)
			wait(10 * time.Second)
			if !test.alone || test.beside {
				a.expect(t, 0, Waiting)
				a.logged(t, "no server is dialed")
				a.presence.with.Store(false) // the other process has ended
				wait(5 * time.Second)
				if test.alone {
					a.expect(t, 10, Unshared)
				} else {
					a.expect(t, 0, Waiting)
				}
				db.Fail(nil)
				wait(5 * time.Second)
				a.expect(t, 10, Alone)
				a.leaves()
				return
			}
			a.expect(t, 10, Unshared)
			a.logged(t, "this proxy was alone in it, and uses the whole caps; if other proxies have joined meanwhile, servers may get up to twice")
			if s := a.Status(); !strings.Contains(s.Line(), "up to twice") || s.Advice != "" {
				t.Errorf("%+v", s)
			}
			a.pools.setCap("gpu", 12)
			a.pools.need("gpu", 12)
			wait(5 * time.Second)
			a.expect(t, 12, Unshared)
			if m.notes.Load() != 0 {
				t.Error("it has noted something without an exchange")
			}

			// Another one has all places by now: what both have is recorded, and no proxy gets more.
			db.Fail(nil)
			a.cut.Store(true)
			b := start(t, db, "b", nil)
			b.pools.setCap("gpu", 12)
			b.pools.need("gpu", 12)
			wait(3 * time.Second)
			b.expect(t, 12, Alone)
			a.cut.Store(false)
			wait(5 * time.Second)
			if m.Alone() || m.notes.Load() == 0 {
				t.Error("it has not noted that another proxy is there")
			}
			if sum := a.pools.uses("gpu") + b.pools.uses("gpu"); a.Status().Mode != Shared || sum != 12 {
				t.Errorf("both use %d places\n%s", sum, a.log)
			}
			b.pools.need("gpu", 0)
			b.leaves()
			wait(3 * time.Second)
			a.expect(t, 12, Alone)
			if !m.Alone() {
				t.Error("it has not noted that it is alone again")
			}
			a.leaves()
		})
	}
}

// TestCapLowered tells once that more is granted than the lowered cap, and once that it is reached.
func TestCapLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := start(t, db, "a", nil), start(t, db, "b", nil)
		defer a.leaves()
		defer b.leaves()
		wait(3 * time.Second)
		a.pools.need("gpu", 5)
		b.pools.need("gpu", 5)
		wait(3 * time.Second)
		a.pools.setCap("gpu", 4)
		b.pools.setCap("gpu", 4)
		wait(5 * time.Second)
		if sum := a.pools.uses("gpu") + b.pools.uses("gpu"); sum > 4 {
			t.Errorf("%d places are used of 4", sum)
		}
	})
}

// TestNameClash tells once that another proxy has the same name, but not of a predecessor that drains.
func TestNameClash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		same := func(o *Options) {
			about := o.About
			o.About = func() fleet.Member {
				m := about()
				m.Name, m.Version = "same", string(o.Holder.ID)
				return m
			}
		}
		a, b := start(t, db, "a", same), start(t, db, "b", same)
		defer a.leaves()
		defer b.leaves()
		wait(time.Minute)
		a.logged(t, "another proxy has the same name")
		a.logged(t, "has another version")
		if s := b.Status(); len(s.Clash) != 1 || s.Line() != "another proxy has the same name" {
			t.Errorf("%+v", s)
		}
		b.state.Store("state", fleet.Draining)
		wait(3 * time.Second)
		if s := a.Status(); len(s.Clash) != 0 {
			t.Errorf("%+v", s)
		}
		a.logged(t, "a proxy of the fleet drains")
	})
}

// TestSync waits for an exchange.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := start(t, db, "a", nil)
		before := db.Counts().Exchanges
		a.Sync(t.Context())
		if after := db.Counts().Exchanges; after <= before {
			t.Errorf("%d exchanges after %d", after, before)
		}
		a.leaves()
		a.Sync(t.Context()) // returns
	})
}
