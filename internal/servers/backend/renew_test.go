package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// outdated returns how many idle connections are to be replaced.
func (f *fake) outdated() (n int) {
	for _, v := range f.pool.Variants() {
		n += v.Outdated
	}
	return n
}

// A full pool is renewed a part at a time, so that nearly all of it is there for clients.
func TestRenewsFullPool(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 20, Warm: 20}, func(f *fake) {
		f.closing = time.Second
		f.accept(time.Second)
	}, func(f *fake) {
		f.until("the pool is full", func() bool { return f.pool.Stats().Idle == 20 })
		f.pool.Renew()
		least := 20
		f.until("all are new", func() bool {
			s := f.pool.Stats()
			least = min(least, s.Idle)
			return f.outdated() == 0 && s.Idle == 20
		})
		if s := f.pool.Stats(); least < 18 || s.Totals.Reasons[pool.Outdated] != 20 || s.Totals.Dialed != 40 {
			t.Errorf("at least %d were idle; %+v", least, s)
		}
	})
}

// Where there is room, there are never fewer than the warm ones.
func TestRenewsBeforeRetiring(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 20, Warm: 5}, func(f *fake) { f.accept(time.Second) }, func(f *fake) {
		f.until("the pool is full", func() bool { return f.pool.Stats().Idle == 5 })
		f.pool.Renew()
		f.until("all are new", func() bool {
			if s := f.pool.Stats(); s.Idle < 5 {
				t.Fatalf("%d are idle", s.Idle)
			}
			return f.outdated() == 0
		})
		f.after(time.Minute)
		f.expect(5, 0)
	})
}

// When the server refuses what is new, the connections that work stay, but for the few that made room to try it.
func TestKeepsOutdatedWhileDialsFail(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 20, Warm: 20}, nil, func(f *fake) {
		f.refuse(0)
		f.pool.Renew()
		f.after(time.Hour)
		if s := f.pool.Stats(); s.Idle < 20-2*2 {
			t.Errorf("%d connections are left", s.Idle)
		}
		f.accept(0)
		f.after(time.Hour)
		f.expect(20, 0)
		if n := f.outdated(); n > 0 {
			t.Errorf("%d are outdated still", n)
		}
	})
}
