package backend

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// world is one or two backends with one queue: the pools, the queue and the workers as they are, and clients, servers and
// an operator who do what they like. It is checked against the invariants of the design after every step.
type world struct {
	t        *rapid.T
	group    *pool.Group[int]
	limit    int      // of the queue
	variants []string // that clients ask for
	backends []*fake
	step     int
	used     []int // connections of each backend after the last step

	mu        sync.Mutex
	waiting   []*modelClient // guarded by mu
	held      []int          // guarded by mu: leased connections
	resetting []int          // guarded by mu
}

type modelClient struct {
	pool.Waiter[int]
	step int // when it came
}

// Whatever happens in whatever order: the caps are kept, every lease ends once, no client waits while a connection is idle,
// and when it is quiet at last, each pool has its wanted size again.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var failure any
		synctest.Test(t, func(*testing.T) {
			var w world
			// What rapid throws is to be caught by rapid, which is outside of the bubble.
			defer func() {
				failure = recover()
				for _, f := range w.backends {
					f.worker.stop(context.Background())
				}
			}()
			w.init(rt)
			w.run()
		})
		if failure != nil {
			panic(failure)
		}
	})
}

func (w *world) init(t *rapid.T) {
	w.t, w.limit = t, rapid.IntRange(0, 5).Draw(t, "queue")
	balance := rapid.SampledFrom([]pool.Balance{pool.LeastLoaded, pool.RoundRobin, pool.RandomTwo, pool.Hash}).Draw(t, "balance")
	w.variants = rapid.SampledFrom([][]string{{""}, {"a", "b", "c"}}).Draw(t, "variants")
	w.group = pool.NewGroup[int](pool.Options{Queue: w.limit, Balance: balance})
	for i := range rapid.IntRange(1, 2).Draw(t, "backends") {
		s := w.settings()
		f := newFake(t, w.group, s)
		f.first = i * 1_000_000
		f.pool.Set(s)
		f.parallel(rapid.IntRange(1, 4).Draw(t, "parallel"))
		f.limit(func(l *limits) {
			l.maxIdle = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Minute}).Draw(t, "maxIdle")
			l.variantMaxIdle = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "variantMaxIdle")
			l.SlowStart = rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(t, "slowStart")
			l.Failures = rapid.IntRange(1, 4).Draw(t, "failures")
			l.StallTimeout = time.Second
		})
		f.closing = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second}).Draw(t, "closing")
		w.backends = append(w.backends, f)
		go f.worker.run()
	}
	w.used = make([]int, len(w.backends))
}

func (w *world) run() {
	actions := map[string]func(*rapid.T){
		"":      func(*rapid.T) { w.check() },
		"burst": w.burst,
		// These change what the caps allow, so that they are no part of a burst.
		"settings": func(t *rapid.T) { w.backend().pool.Set(w.settings()) },
		"renew": func(t *rapid.T) { // as Recycle does
			f := w.backend()
			f.pool.Renew()
			f.worker.renew()
		},
		"session stalls": func(*rapid.T) { // the others' operations would begin sessions just before
			f := w.backend()
			before := f.pool.Stats().Totals.Leased
			f.worker.sessionStalled(health.Stall{Began: f.worker.now()})
			synctest.Wait()
			if s := f.pool.Stats(); !s.Usable && s.Totals.Leased > before {
				w.t.Errorf("sessions began on a server that has stalled: %+v", s)
			}
		},
		"mode": func(t *rapid.T) {
			w.backend().pool.SetMode(rapid.SampledFrom([]pool.Mode{pool.Enabled, pool.Draining, pool.Disabled}).Draw(t, "mode"))
		},
	}
	// There is one probing goroutine, so this is no part of a burst either.
	actions["probe"] = func(t *rapid.T) { w.backend().worker.probed(rapid.Bool().Draw(t, "up"), "500") }
	for name, prepare := range w.operations() {
		actions[name] = func(t *rapid.T) {
			if do := prepare(); do != nil {
				do()
			} else {
				t.Skip("nothing to do it with")
			}
		}
	}
	w.t.Repeat(actions)
	w.comesToRest()
}

func (w *world) clientComes() func() {
	c := &modelClient{step: w.step}
	c.Key = rapid.Uint64().Draw(w.t, "key")
	c.Variant = rapid.SampledFrom(w.variants).Draw(w.t, "variant")
	if c.Ahead = rapid.IntRange(0, 4).Draw(w.t, "moves") == 0; c.Ahead {
		c.Avoid = w.backend().pool
	}
	return func() {
		number, ok, err := w.group.Acquire(&c.Waiter)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case ok:
			w.got(number)
		case err == nil:
			w.waiting = append(w.waiting, c)
		case (err == pool.ErrNoQueue) != (w.limit == 0):
			w.t.Errorf("%v, with a queue of %d", err, w.limit)
		}
	}
}

func (w *world) clientLeaves() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(w.waiting)-1).Draw(w.t, "client")
	c := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return func() {
		if number, leased := w.group.Leave(&c.Waiter, pool.LeftEarly); leased {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got(number)
		}
	}
}

// collect has the clients take the connections that were handed to them.
func (w *world) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := -1 // the step in which the first came that still waits
	w.waiting = slices.DeleteFunc(w.waiting, func(c *modelClient) bool {
		select {
		case number, ok := <-c.Ready():
			if !ok { // it was refused
				return true
			}
			w.got(number)
			if len(w.variants) == 1 && !c.Ahead && first >= 0 && c.step > first {
				w.t.Errorf("a client of step %d was served before one of step %d", c.step, first)
			}
			return true
		default:
			if !c.Ahead && (first < 0 || c.step < first) {
				first = c.step
			}
			return false
		}
	})
}

// mostKeyless is the most dials without a key in a step: those for the clients that it brings, and, in its two minutes, some ahead every 22 s.
const mostKeyless = 100

// check compares everything with the invariants.
func (w *world) check() {
	synctest.Wait()
	w.collect()
	w.step++
	q := w.group.Queue()
	if q.Waiting != len(w.waiting) || q.Waiting > w.mostWaiting() {
		w.t.Errorf("%d clients wait, with a queue of %d: %+v", len(w.waiting), w.limit, q)
	}
	leased, resetting := 0, 0
	for i, f := range w.backends {
		s := f.pool.Stats()
		leased, resetting = leased+s.Leased, resetting+s.Resetting
		if s.Used() > max(s.Cap, w.used[i]) || s.Used() > s.Cap && s.Dialing > 0 && s.Used() > w.used[i] {
			w.t.Errorf("backend %d: %d connections, %d before, cap %d", i, s.Used(), w.used[i], s.Cap)
		}
		w.used[i] = s.Used()
		if there := f.sees(); there != s.Used() {
			w.t.Errorf("backend %d: the server sees %d connections; the book says %d", i, there, s.Used())
		}
		f.set(func() {
			if f.keyless > mostKeyless {
				w.t.Errorf("backend %d: %d dials without a key in one step", i, f.keyless)
			}
			f.keyless = 0
		})
		if s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded+uint64(s.Leased+s.Resetting) {
			w.t.Errorf("backend %d: leases do not add up: %+v", i, s)
		}
		if len(w.variants) == 1 && q.Waiting > w.ahead() && s.Idle > 0 && s.Usable && !s.Held && !f.onTrial() && s.State == "enabled" && s.Weight > 0 {
			w.t.Errorf("backend %d: %d clients wait while %d connections are idle", i, q.Waiting, s.Idle)
		}
		if s.Totals.Reasons.Sum() != s.Totals.Discarded+s.Totals.RetiredIdle {
			w.t.Errorf("backend %d: reasons do not add up: %+v", i, s)
		}
	}
	if leased != len(w.held) || resetting != len(w.resetting) {
		w.t.Errorf("%d leased, %d resetting; held are %d and %d", leased, resetting, len(w.held), len(w.resetting))
	}
}

// mostWaiting returns how many clients may wait: those that the queue allows, and as many as there are places, for whom connections are dialed,
// and all whose sessions move.
func (w *world) mostWaiting() int {
	if w.limit == 0 {
		return w.ahead()
	}
	return w.ahead() + w.limit + modelCap*len(w.backends)
}

// ahead returns how many clients wait whose sessions move.
func (w *world) ahead() (n int) {
	for _, c := range w.waiting {
		if c.Ahead {
			n++
		}
	}
	return n
}

// comesToRest checks that in the long run everything is as it should be: first with the sessions that there are, then
// without any.
func (w *world) comesToRest() {
	for _, f := range w.backends {
		f.accept(0)
		f.set(func() { f.lasts = 0 })
		f.worker.probed(true, "")
		f.worker.forgetStall()
		s := f.pool.Stats()
		f.pool.Set(pool.Settings{Cap: s.Cap, Warm: s.Warm, Weight: 1, Variants: w.keeps()})
		f.pool.SetMode(pool.Enabled)
	}
	w.rest()
	// Those who wait get the connections of the others, or new ones in their place.
	for range w.mostWaiting() + 1 {
		for _, number := range slices.Concat(w.held, w.resetting) {
			w.of(number).finish(number, "")
		}
		w.held, w.resetting = nil, nil
		time.Sleep(time.Minute)
		w.check()
	}
	w.rest()
	if q := w.group.Queue(); q.Waiting > 0 {
		w.t.Errorf("clients wait in a world without sessions: %+v", q)
	}
	for i, f := range w.backends {
		if h := f.report.get(); h.Circuit != "closed" {
			w.t.Errorf("backend %d: %+v", i, h)
		}
		w.checkLog(i, f)
	}
}

// rest waits for a long time and checks the sizes of the pools.
func (w *world) rest() {
	time.Sleep(10 * time.Minute)
	w.check()
	for i, f := range w.backends {
		s := f.pool.Stats()
		inUse := s.Leased + s.Resetting
		switch {
		case s.Usable:
			want := max(min(s.Cap, inUse+s.Warm), inUse)
			if len(w.variants) > 1 && s.Used() < want { // no client may have come yet for whom some are to be warm
				want = max(s.Used(), inUse)
			}
			if s.Used() != want || s.Dialing+s.Retiring > 0 || s.Ramp != 1 {
				w.t.Errorf("backend %d: %d connections, wanted are %d: %+v, %+v", i, s.Used(), want, s, f.report.get())
			}
		case inUse < s.Cap: // otherwise there is no place to find out whether it is well
			w.t.Errorf("backend %d is not used: %+v, %+v", i, s, f.report.get())
		}
		if s.Usable && f.outdated() > 0 {
			w.t.Errorf("backend %d has %d idle connections that were to be replaced: %+v", i, f.outdated(), s)
		}
		if len(w.waiting) > 0 && inUse < s.Cap {
			w.t.Errorf("backend %d has room, and clients wait: %+v", i, s)
		}
	}
}

// checkLog checks that each line tells of a change.
func (w *world) checkLog(i int, f *fake) {
	for _, about := range [][]string{{notReachable, reachable}, {opened, closedAgain}, {"WARN backend taken out of service, probe", "INFO backend probe"}} {
		last := ""
		for _, line := range f.log.all() {
			for _, kind := range about {
				if !strings.HasPrefix(line, kind) {
					continue
				}
				if kind == last {
					w.t.Errorf("backend %d: %q twice in a row: %q", i, kind, f.log.all())
				}
				last = kind
			}
		}
	}
}
