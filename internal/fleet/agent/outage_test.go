package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest/memory"
)

// TestCannotUse dials no server while the ledger cannot be used, since others may be able to, unless an operator has said how many places it may use
// nevertheless. It shares them from when it can. That it was always alone does not help: the others can join at any time.
func TestCannotUse(t *testing.T) {
	for reason, do := range map[error]string{fleet.ErrNoTables: "wsbouncer migrate", fleet.ErrNoRights: "give this proxy's user the rights"} {
		for _, without := range []int{0, 4} {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				db.Fail(reason)
				m := new(remembered)
				m.alone.Store(true)
				a := start(t, db, "a", func(o *Options) {
					if o.Holder.Without = without; without == 0 {
						o.Memory = m
					}
				})
				defer a.leaves()
				wait(time.Second)
				a.pools.need("gpu", 10)
				a.expect(t, without, Waiting)
				wait(time.Minute)
				a.expect(t, without, Waiting)
				if without == 0 {
					a.logged(t, "the ledger cannot be used: no server is dialed", do, "set fleet: off")
				}
				db.Fail(nil)
				wait(20 * time.Second)
				a.expect(t, 10, Alone)
				a.logged(t, "joined the fleet")
			})
		}
	}
}

// TestBackWithoutRights takes the places back that a proxy has assumed to be its own, when the database is back, where others may join.
func TestBackWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		db.Fail(fleet.ErrUnreachable)
		m := new(remembered)
		m.alone.Store(true)
		a := start(t, db, "a", func(o *Options) { o.Memory = m })
		defer a.leaves()
		a.pools.need("gpu", 10)
		wait(5 * time.Second)
		a.expect(t, 10, Unshared)
		db.Fail(fleet.ErrNoRights)
		wait(5 * time.Second)
		a.expect(t, 0, Waiting)
		db.Fail(nil)
		wait(20 * time.Second)
		a.expect(t, 10, Alone)
	})
}

// TestLocalCannotBeUsed serves with the whole caps if a local ledger cannot be used, unless another process runs, or may, as on a network file
// system.
func TestLocalCannotBeUsed(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			db.Fail(fleet.ErrNetworkFile)
			a := start(t, db, "a", func(o *Options) {
				o.Local = true
				o.Presence.(*presence).with.Store(beside)
			})
			defer a.leaves()
			a.pools.need("gpu", 10)
			wait(5 * time.Second)
			if beside {
				a.expect(t, 0, Waiting)
			} else {
				a.expect(t, 10, Unshared)
			}
		})
	}
}

// TestFullDisk serves with the whole caps if the disk of a local ledger is full, unless another process runs, which may have places. It notices soon
// that the ledger can be used again, since others can join it from then on.
func TestFullDisk(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			db.Fail(fleet.ErrDisk)
			a := start(t, db, "a", func(o *Options) {
				o.Local = true
				o.Presence.(*presence).with.Store(beside)
			})
			a.pools.need("gpu", 10)
			wait(5 * time.Second)
			if beside {
				a.expect(t, 0, Waiting)
			} else {
				a.expect(t, 10, Unshared)
				a.logged(t, "this proxy uses the whole caps", "free or replace the disk")
			}
			db.Fail(nil)
			if beside {
				wait(refusedWait)
			}
			wait(longestWait)
			a.expect(t, 10, Alone)
			a.leaves()
		})
	}
}

// TestDiskFillsUp uses the whole caps as soon as the disk of a local ledger is full if the proxy was alone in it, so that servers that are added later
// are used. It does not while another process runs.
func TestDiskFillsUp(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := memory.New()
			a := start(t, db, "a", func(o *Options) { o.Local = true })
			a.pools.need("gpu", 10)
			wait(5 * time.Second)
			a.expect(t, 10, Alone)
			a.o.Presence.(*presence).with.Store(beside)
			db.Fail(fleet.ErrDisk)
			a.pools.setCap("new", 3)
			a.pools.need("new", 3)
			wait(5 * time.Second)
			s := a.Status()
			if unshared := s.Mode == Unshared; unshared == beside || (s.Limits == nil) == beside {
				t.Errorf("another process: %v; mode %s, limits %v", beside, s.Mode, s.Limits)
			}
			if !beside {
				a.logged(t, "this proxy uses the whole caps", "--fleet off")
			}
			db.Fail(nil)
			wait(20 * time.Second)
			if s := a.Status(); s.Mode != Alone || s.Limits["new"] != 3 {
				t.Errorf("after the disk: mode %s, limits %v", s.Mode, s.Limits)
			}
			a.leaves()
		})
	}
}
