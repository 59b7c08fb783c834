package pool

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Whatever happens at once: no client gets a connection that another has, every client that waits is served, the cap holds
// and the numbers agree at every look, and in the end the books balance.
func TestStress(t *testing.T) {
	t.Parallel()
	for balance := LeastLoaded; balance <= Hash; balance++ {
		t.Run(balance.String(), func(t *testing.T) { runStress(t, balance, "") })
	}
	t.Run("tenants", func(t *testing.T) { stressTenants(t, "", "x", "y", "z") })
	t.Run("variants", func(t *testing.T) { runStress(t, LeastLoaded, "", "a", "b", "c") })
}

func runStress(t *testing.T, balance Balance, variants ...string) {
	stressAll(t, balance, variants, []string{""})
}

// stressTenants has tenants share the connections, some of which are guaranteed to one of them now and then.
func stressTenants(t *testing.T, tenants ...string) { stressAll(t, LeastLoaded, []string{""}, tenants) }

func stressAll(t *testing.T, balance Balance, variants, tenants []string) {
	watchdog, cancel := context.WithTimeout(t.Context(), time.Minute) // only a failure waits for it
	defer cancel()
	s := &stress{
		T: t, variants: variants, tenants: tenants, group: NewGroup[*stressConn](Options{Balance: balance, Queue: stressQueue}),
		dials: make(chan *Slot[*stressConn], 8), quit: make(chan struct{}), watchdog: watchdog,
	}
	var clients, others, dialers sync.WaitGroup
	for i := range 4 {
		p := s.add(fmt.Sprint("backend-", i))
		others.Go(func() { s.work(p, s.quit) })
	}
	for range 2 {
		dialers.Go(s.dial)
	}
	others.Go(s.change)
	others.Go(s.comeAndGo)
	others.Go(s.look)
	for id := range stressUsers {
		clients.Go(func() { s.client(id) })
	}
	clients.Wait()
	close(s.quit)
	others.Wait()
	close(s.dials)
	dialers.Wait()
	s.settle()
}

// comeAndGo adds a backend and takes it out again, in the middle of everything, as a change of the configuration does.
func (s *stress) comeAndGo() {
	for n := range 50 {
		p := s.add(fmt.Sprint("guest-", n))
		quit, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); s.work(p, quit) }()
		for p.Stats().Totals.Leased < 5 {
			select {
			case <-p.gone: // something has changed
				continue
			case <-s.quit: // clients no longer come
			}
			break
		}
		close(quit)
		<-done
		s.group.Remove(p.Pool)
		for {
			for c, ok := p.RetireOldest(Shutdown); ok; c, ok = p.RetireOldest(Shutdown) {
				c.slot.Gone()
			}
			if stats := p.Stats(); stats.Used() == 0 {
				break
			}
			<-p.gone
		}
	}
}

// look reads the statistics all the time. Each look is at one instant, so its numbers must agree.
func (s *stress) look() {
	for {
		for _, p := range s.all() {
			s.agree(p.Stats())
		}
		q := s.group.Queue()
		if t := q.Totals; t.Queued != t.Served+t.TimedOut+t.Left+t.TurnedAway+t.Evicted+uint64(q.Waiting) {
			s.Errorf("queue: %+v", q)
		}
		s.group.locked(func() {
			w := s.group.servable()
			if w != nil && !slices.ContainsFunc(s.group.pools, func(p *Pool[*stressConn]) bool {
				return p.ready(w.Variant) && s.group.holdsBack(p, w)
			}) {
				s.Errorf("%d clients wait while there is a connection for one", s.group.queue.length)
			}
		})
		select {
		case <-s.quit:
			return
		default:
			runtime.Gosched()
		}
	}
}

func (s *stress) agree(p Stats) {
	t := p.Totals
	switch {
	case p.Used() > stressCap || min(p.Dialing, p.Idle, p.Leased, p.Resetting, p.Retiring) < 0:
		s.Errorf("the cap does not hold: %+v", p)
	case t.Leased != t.Returned+t.Discarded+uint64(p.Leased+p.Resetting):
		s.Errorf("leases: %+v", p)
	case t.Dialed != t.Discarded+t.RetiredIdle+uint64(p.Idle+p.Leased+p.Resetting):
		s.Errorf("connections: %+v", p)
	case t.Reasons.Sum() != t.Discarded+t.RetiredIdle:
		s.Errorf("reasons: %+v", p)
	}
}

// settle holds the books at the end against what the clients have counted.
func (s *stress) settle() {
	var leased uint64
	for _, p := range s.all() {
		stats := p.Stats()
		s.agree(stats)
		if stats.Used() != stats.Idle {
			s.Errorf("at the end: %+v", stats)
		}
		leased += stats.Totals.Leased
	}
	if want := s.leased.Load(); leased != want {
		s.Errorf("%d leases; the clients had %d", leased, want)
	}
	got := s.group.Queue()
	want := QueueStats{Limit: stressQueue, Totals: QueueTotals{
		Queued: s.queued.Load(), Served: s.served.Load(), TimedOut: s.timedOut.Load(), Left: s.left.Load(),
		Full: s.full.Load(), Evicted: s.evicted.Load(), WaitedSeconds: got.Totals.WaitedSeconds,
	}}
	if got != want {
		s.Errorf("queue %+v;\nwant  %+v", got, want)
	}
	// Were one of these 0, the test would test less than it says.
	q := got.Totals
	if leased < stressRounds || min(q.Served, q.TimedOut, q.Left) == 0 {
		s.Errorf("hardly any contention: %d leases, queue %+v", leased, q)
	}
}
