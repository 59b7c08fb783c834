package pool

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	stressCap    = 6 // the largest that any pool ever has
	stressQueue  = 8
	stressUsers  = 16
	stressRounds = 3000
)

// stress is everything at once: clients that come, wait, leave and end their leases in all ways, backends that are dialed,
// fail, come and go, an operator who changes all there is to change, and a goroutine that looks at the numbers.
type stress struct {
	*testing.T
	group    *Group[*stressConn]
	variants []string // that clients ask for
	tenants  []string // whose clients they are
	holders  sync.Map // of connections: who has leased which
	dials    chan *Slot[*stressConn]
	quit     chan struct{} // closed when all clients are done
	watchdog context.Context

	mu    sync.Mutex
	pools []*stressPool // all that there ever were; guarded by mu

	leased, served, timedOut, left, full, queued, evicted atomic.Uint64 // as the clients see it
}

type stressConn struct{ slot *Slot[*stressConn] }

type stressPool struct {
	*Pool[*stressConn]
	wanted, gone chan struct{} // of size one
}

func (s *stress) add(name string) *stressPool {
	p := &stressPool{wanted: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
	p.Pool = s.group.Add(name, s.settings(4, 1, 1), func() {
		for _, c := range []chan struct{}{p.wanted, p.gone} {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, p)
	return p
}

func (s *stress) settings(limit, warm int, weight float64) Settings {
	return Settings{Cap: limit, Warm: warm, Weight: weight, Variants: len(s.variants) - 1}
}

func (s *stress) all() []*stressPool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pools
}

// work is a backend's worker. It looks only when it was signalled: a signal too few, and a client waits for ever.
func (s *stress) work(p *stressPool, quit <-chan struct{}) {
	for {
		for slot, ok := p.Reserve(); ok; slot, ok = p.Reserve() {
			s.dials <- slot
		}
		if rand.IntN(20) == 0 {
			if slot, ok := p.ReserveTrial(); ok {
				s.dials <- slot
			}
		}
		for c, ok := p.RetireSurplus(s.group.Now() - Instant(time.Millisecond)); ok; c, ok = p.RetireSurplus(0) {
			c.slot.Gone()
		}
		select {
		case <-p.wanted:
		case <-quit:
			return
		}
	}
}

// dial ends the dialing of connections, now and then badly.
func (s *stress) dial() {
	for slot := range s.dials {
		switch c := (&stressConn{slot}); rand.IntN(10) {
		case 0:
			slot.Failed()
		case 1:
			slot.Abandoned()
		case 2:
			slot.Filled(c)
			s.lose(c)
		default:
			slot.Filled(c)
		}
	}
}

// lose is a backend's closing of a connection, at a moment when anybody may lease it.
func (s *stress) lose(c *stressConn) {
	if c.slot.Sessions() == 0 && c.slot.State() == Dialing {
		s.Error("a connection that is there is dialing")
	}
	if c.slot.Withdraw(Closed) {
		if holder, held := s.holders.Load(c); held {
			s.Errorf("a connection was withdrawn from client %v", holder)
		}
		c.slot.Gone()
	}
}

// client has sessions one after the other.
func (s *stress) client(id int) {
	for range stressRounds {
		w := &Waiter[*stressConn]{Key: rand.Uint64(), Variant: s.variants[rand.IntN(len(s.variants))], Tenant: s.tenants[id%len(s.tenants)]}
		c, ok, err := s.group.Acquire(w)
		switch {
		case err != nil:
			s.full.Add(1)
			runtime.Gosched()
			continue
		case !ok:
			s.queued.Add(1)
			if c, ok = s.wait(w); !ok {
				continue
			}
		}
		s.leased.Add(1)
		if got := c.slot.Variant(); got != w.Variant {
			s.Errorf("a connection of %q for a client that needs %q", got, w.Variant)
		}
		s.session(id, c, w.Lease())
	}
}

// wait waits for a connection, or not so long.
func (s *stress) wait(w *Waiter[*stressConn]) (c *stressConn, ok bool) {
	why, counted := TimedOut, &s.timedOut
	switch rand.IntN(6) {
	case 0: // at once
		why, counted = LeftEarly, &s.left
	case 1: // at a moment that may be that of a hand-over
		for range rand.IntN(20) {
			runtime.Gosched()
		}
	default:
		select {
		case c, ok = <-w.Ready():
			if !ok {
				s.evicted.Add(1)
				return nil, false
			}
			s.served.Add(1)
			return c, true
		case <-s.watchdog.Done():
			s.Error("a client is not served")
		}
	}
	switch c, ok = s.group.Leave(w, why); {
	case ok:
		counted = &s.served
	case w.Refused() != nil: // at the last moment
		counted = &s.evicted
	}
	counted.Add(1)
	return c, ok
}

// session uses a connection, which no other may have, and ends its lease in one of the ways.
func (s *stress) session(id int, c *stressConn, lease uint64) {
	if other, held := s.holders.LoadOrStore(c, id); held {
		s.Errorf("the connection of client %d was leased to client %d", other, id)
	}
	if rand.IntN(2) == 0 {
		runtime.Gosched()
	}
	if state := c.slot.State(); state != Leased {
		s.Errorf("a leased connection is %v", state)
	}
	s.lose(c) // has no effect
	if rand.IntN(3) == 0 {
		c.slot.Reset(lease)
	}
	if !s.holders.CompareAndDelete(c, id) {
		s.Errorf("the connection of client %d is another client's now", id)
	}
	if rand.IntN(5) == 0 {
		c.slot.Discard(lease, Cut)
		c.slot.Gone()
		return
	}
	c.slot.Return(lease)
	if rand.IntN(10) == 0 {
		s.lose(c)
	}
}

// change is an operator and the health checks. The first backend stays well, so that there is always one.
func (s *stress) change() {
	for {
		pools := s.all()[:4]
		i := rand.IntN(len(pools))
		switch p := pools[i]; rand.IntN(5) {
		case 0:
			p.Set(s.settings(1+rand.IntN(stressCap), rand.IntN(3), 1/float64(1+rand.IntN(3))))
		case 1:
			p.SetRamp(1 / float64(1+rand.IntN(4)))
		case 2:
			p.SetMode(Mode(rand.IntN(3) * min(i, 1)))
		case 3:
			p.SetUsable(i == 0 || rand.IntN(2) == 0)
		case 4:
			p.SetDialable(i == 0 || rand.IntN(2) == 0)
		}
		if len(s.tenants) > 1 && rand.IntN(10) == 0 {
			s.group.SetTenants(&TenantSettings{
				Shares: map[string]float64{s.tenants[1]: 1 + rand.Float64()}, OtherShare: 0.1 + rand.Float64(),
				Guaranteed: map[string]int{s.tenants[2]: rand.IntN(3)},
			})
		}
		select {
		case <-s.quit:
			return
		default:
			runtime.Gosched()
		}
	}
}
