package backend

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// fake is a worker with its pool, and the server that it dials. Numbers stand for connections, and the time is that of a
// bubble (testing/synctest), in which an hour passes at once when all goroutines are blocked.
type fake struct {
	t      errorer
	first  int // connections have higher numbers
	group  *pool.Group[int]
	pool   *pool.Pool[int]
	worker worker[int]
	report report
	log    *capture

	mu      sync.Mutex
	dial    func(context.Context) error // guarded by mu: how the server takes a dial; nil for well and at once
	lasts   time.Duration               // guarded by mu: after which the server closes connections; 0 for never
	closing time.Duration               // guarded by mu: how long closing takes
	conns   map[int]*fakeConn           // guarded by mu: all ever
	begun   []time.Time                 // guarded by mu: when each dial was
	dialing int                         // guarded by mu
	keyless int                         // guarded by mu: dials refused for want of a key, until the model resets it
	granted int                         // guarded by mu: dials that takes has let in, and that have not returned
	peak    int                         // guarded by mu: the most dials at once since it was set to 0
	there   int                         // guarded by mu: connections that the server sees, from the dial to the end
}

type fakeConn struct {
	slot        *pool.Slot[int]
	established time.Time
	broken      bool // guarded by the fake's mu: lost while it was leased
}

var errRefused = errors.New("refused")

// inBubble runs f in a bubble, with a worker that has filled its pool as far as it could. It changes the worker before it
// is started. At the end everything is taken down, and no goroutine may be left.
func inBubble(t *testing.T, s pool.Settings, change func(*fake), f func(*fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fake := newFake(t, pool.NewGroup[int](pool.Options{Queue: 100}), s)
		if change != nil {
			change(fake)
		}
		t.Cleanup(fake.end)
		go fake.worker.run()
		synctest.Wait()
		f(fake)
	})
}

// errorer is a test, of package testing or of rapid.
type errorer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func newFake(t errorer, group *pool.Group[int], s pool.Settings) *fake {
	f := &fake{t: t, group: group, log: new(capture), conns: make(map[int]*fakeConn)}
	s.Weight = 1
	f.report.init("ws://fake", slog.New(f.log), false)
	f.worker = worker[int]{
		report: &f.report, limits: limits{Limits: health.Limits{Parallel: 32, Failures: 5}, maxIdle: time.Hour}, now: group.Now,
		establish: f.establish, retire: f.close,
	}
	f.worker.init()
	f.pool = group.Add("fake", s, f.worker.signal)
	f.worker.pool = f.pool
	return f
}

// parallel sets the most dials at once, before the worker is started.
func (f *fake) parallel(n int) { f.limit(func(l *limits) { l.Parallel = n }) }

// limit changes the limits, before the worker is started.
func (f *fake) limit(change func(*limits)) {
	change(&f.worker.limits)
	f.worker.health = health.New(f.worker.limits.Limits)
}

// end stops the worker and checks that the books balance.
func (f *fake) end() {
	f.worker.stop(context.Background())
	f.after(0)
	s := f.pool.Stats()
	if s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded+uint64(s.Leased+s.Resetting) {
		f.t.Errorf("the books do not balance: %+v", s)
	}
	if s.Dialing != 0 {
		f.t.Errorf("a dial has outlived the worker: %+v", s)
	}
}

// after lets d pass, and then waits until everybody waits.
func (f *fake) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until lets time pass until the condition holds, at most an hour.
func (f *fake) until(what string, condition func() bool) {
	f.t.Helper()
	for range time.Hour / (10 * time.Millisecond) {
		if condition() {
			return
		}
		f.after(10 * time.Millisecond)
	}
	f.t.Fatalf("not within an hour: %s", what)
}

// set changes how the server behaves.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// refuse has the server refuse connections after so long.
func (f *fake) refuse(after time.Duration) {
	f.set(func() {
		f.dial = func(ctx context.Context) error {
			if err := pass(ctx, after); err != nil {
				return err
			}
			return errRefused
		}
	})
}

// wantKey has the server refuse connections after so long, because they bear no client's key.
func (f *fake) wantKey(after time.Duration) {
	f.set(func() {
		f.dial = func(ctx context.Context) error {
			if err := pass(ctx, after); err != nil {
				return err
			}
			f.set(func() { f.keyless++ })
			return anonymousRefusedError{errRefused}
		}
	})
}

// accept has the server accept connections after so long.
func (f *fake) accept(after time.Duration) {
	f.set(func() { f.dial = func(ctx context.Context) error { return pass(ctx, after) } })
}

// pass waits for d, or until ctx ends.
func pass(ctx context.Context, d time.Duration) error {
	if d == 0 { // see later
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// later calls do in a goroutine when d has passed. Where d is 0, it sets no timer: such a timer of a bubble expires in the goroutine that sets it, and
// if several do so at the same time, the race detector crashes, since it has one context for all of them (Go 1.26, timer.unlockAndRun).
func later(d time.Duration, do func()) {
	if d == 0 {
		go do()
		return
	}
	time.AfterFunc(d, do)
}

// attempts returns when each dial was, and the most at once since it was called.
func (f *fake) attempts() (begun []time.Time, peak int) {
	f.set(func() { begun, peak, f.peak = f.begun, f.peak, f.dialing })
	return begun, peak
}

// establish is the worker's.
func (f *fake) establish(ctx context.Context, slot *pool.Slot[int]) error {
	var dial func(context.Context) error
	f.set(func() {
		f.begun = append(f.begun, time.Now())
		f.dialing++
		f.peak = max(f.peak, f.dialing)
		f.there++
		if limit := f.pool.Stats().Cap; f.there > limit {
			f.t.Errorf("dialed connection %d of %d", f.there, limit)
		}
		dial = f.dial
	})
	var err error
	if dial != nil {
		err = dial(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialing--
	if err != nil {
		f.there--
		return err
	}
	f.granted = max(f.granted-1, 0)
	number := f.first + len(f.conns) + 1
	f.conns[number] = &fakeConn{slot: slot, established: time.Now()}
	if f.lasts > 0 {
		time.AfterFunc(f.lasts, func() { f.lose(number) })
	}
	go slot.Filled(number) // some time soon, as on an event loop
	return nil
}

// lose ends a connection as the server may at any time.
func (f *fake) lose(number int) {
	f.mu.Lock()
	c := f.conns[number]
	young := time.Since(c.established) < health.Probation
	c.broken = true
	f.mu.Unlock()
	if young && c.slot.Sessions() == 0 {
		f.worker.lostOnProbation("closed")
	}
	if c.slot.Withdraw(pool.Closed) {
		f.close(number)
	}
}

// close is the worker's retire.
func (f *fake) close(number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	later(f.closing, func() {
		f.mu.Lock()
		c := f.conns[number]
		f.there--
		f.mu.Unlock()
		c.slot.Gone()
	})
}

// lease leases a connection, which must be there.
func (f *fake) lease() int {
	f.t.Helper()
	number, ok := f.tryLease()
	if !ok {
		f.t.Fatalf("nothing to lease: %+v", f.pool.Stats())
	}
	f.after(0)
	return number
}

// tryLease leases a connection if one is idle.
func (f *fake) tryLease() (int, bool) {
	var w pool.Waiter[int]
	number, ok, err := f.group.Acquire(&w)
	if !ok && err == nil {
		number, ok = f.group.Leave(&w, pool.LeftEarly)
	}
	if ok {
		f.worker.serves()
	}
	return number, ok
}

// slot returns a connection's entry in the book.
func (f *fake) slot(number int) *pool.Slot[int] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns[number].slot
}

// giveBack ends leases well.
func (f *fake) giveBack(numbers ...int) {
	for _, number := range numbers {
		f.worker.sessionEnded(health.SessionEnd{}, f.worker.now())
		giveBack(f.slot(number))
	}
	f.after(0)
}

// expect compares the numbers of idle and leased connections, none of which may be on the way.
func (f *fake) expect(idle, leased int) {
	f.t.Helper()
	if s := f.pool.Stats(); s.Idle != idle || s.Leased != leased || s.Used() != idle+leased {
		f.t.Errorf("want %d idle and %d leased: %+v", idle, leased, s)
	}
}

// giveBack, reset and discard end the lease of a connection as its holder does.
func giveBack(s *pool.Slot[int]) { s.Return(s.Sessions()) }

func reset(s *pool.Slot[int]) { s.Reset(s.Sessions()) }

func discard(s *pool.Slot[int], reason pool.Reason) { s.Discard(s.Sessions(), reason) }
