package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// takes has the server take n connections and refuse others as full.
func (f *fake) takes(n int) {
	f.set(func() {
		f.dial = func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.there-f.dialing+f.granted >= n { // those that it refuses hold no place, even before their dials have returned
				return fmt.Errorf("503: %w", errFull)
			}
			f.granted++
			return nil
		}
	})
}

const (
	becameFull = "WARN backend is full"
	allAgain   = "INFO backend accepts connections up to"
)

// lines counts the log's lines of a kind.
func (f *fake) lines(kind string) (n int) {
	for _, line := range f.log.all() {
		if strings.HasPrefix(line, kind) {
			n++
		}
	}
	return n
}

// A server that is full is well: it keeps what it has and is asked for no more for a while, then for a little more at a time,
// until it takes them all again. The log says it once.
func TestFullServer(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 20, Warm: 20}, func(f *fake) { f.takes(12) }, func(f *fake) {
		f.after(time.Second)
		f.expect(12, 0)
		s := f.pool.Stats()
		// Less than 12 if the refusal was noted before the last of the twelve connections.
		if s.Ceiling < 10 || s.Ceiling > 12 || !s.Usable || f.report.get().Circuit != "closed" {
			t.Fatalf("%+v, %+v; want a ceiling of 12, or little less, on a backend that is well", s, f.report.get())
		}
		begun, _ := f.attempts()
		f.after(health.FullPause*3/4 - 2*time.Second)
		if again, _ := f.attempts(); len(again) > len(begun) {
			t.Errorf("a full server was dialed %d times within the hold time", len(again)-len(begun))
		}
		f.after(10 * time.Minute) // it stays full: it is asked from time to time
		f.expect(12, 0)
		again, _ := f.attempts()
		if n := len(again) - len(begun); n < 10 || n > 100 {
			t.Errorf("a full server was dialed %d times within ten minutes", n)
		}
		if full, free := f.lines(becameFull), f.lines(allAgain); full != 1 || free != 0 {
			t.Errorf("logged %d times that it is full, %d times that it is not: %q", full, free, f.log.all())
		}
		f.takes(20)
		f.until("the server has all its connections", func() bool { return f.pool.Stats().Idle == 20 })
		f.until("there is no ceiling", func() bool { return f.pool.Stats().Ceiling == 20 })
		if full, free := f.lines(becameFull), f.lines(allAgain); full != 1 || free != 1 {
			t.Errorf("logged %d times that it is full, %d times that it is not: %q", full, free, f.log.all())
		}
	})
}

// Its share returns step by step.
func TestFullServerIsRaisedInSteps(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 20, Warm: 20}, func(f *fake) { f.takes(10) }, func(f *fake) {
		f.after(time.Second)
		first := f.pool.Stats().Ceiling // 10, unless the refusal is noted before the last of the ten connections
		if first < 8 || first > 10 {
			t.Fatalf("the ceiling is %d, of a server that takes 10", first)
		}
		f.takes(20)
		var steps, want []int
		for last := first; last < 20; {
			f.after(100 * time.Millisecond)
			if now := f.pool.Stats().Ceiling; now != last {
				steps = append(steps, now)
				last = now
				if full := f.report.get().FullAt; now < 20 && full != first || now == 20 && full != 0 {
					t.Errorf("with a ceiling of %d, the server is reported to be full at %d; it was at %d", now, full, first)
				}
			}
		}
		for next := first + 2; next < 20; next += 2 {
			want = append(want, next)
		}
		if want = append(want, 20); !slices.Equal(steps, want) {
			t.Errorf("ceilings %v; want %v", steps, want)
		}
	})
}

// A server that refuses everything is not full but out of order, whatever it says.
func TestRefusingServerIsNotFull(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 8, Warm: 8}, func(f *fake) { f.takes(0) }, func(f *fake) {
		f.after(time.Minute)
		if s, h := f.pool.Stats(), f.report.get(); s.Ceiling != 8 || s.Usable || h.Circuit == "closed" || h.Reachable {
			t.Errorf("%+v, %+v; want it out of service", s, h)
		}
		if begun, _ := f.attempts(); len(begun) > 60 {
			t.Errorf("%d attempts in a minute", len(begun))
		}
	})
}

// A server that refuses a session has as many as it takes: the others are the ceiling.
func TestSessionIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 5, Warm: 5}, nil, func(f *fake) {
		f.lease()
		f.lease()
		for n := range 6 { // its place may take a moment to come free, or it limits the rate
			if s := f.pool.Stats(); s.Ceiling != 5 {
				t.Fatalf("after %d refusals: %+v; want no ceiling yet", n, s)
			}
			refused := f.lease()
			f.worker.sessionRefused(Client{})
			if n%2 == 0 { // it depends on the scheduler whether the worker sees the lease that ends
				f.after(0)
			}
			f.discard(refused, pool.Full)
			f.after(0)
			w := new(pool.Waiter[int])
			if _, ok, _ := f.group.Acquire(w); ok {
				t.Fatal("another session begins at once")
			}
			f.group.Leave(w, pool.LeftEarly)
			f.after(health.FirstHold << n)
		}
		if s := f.pool.Stats(); s.Ceiling != 2 || s.Idle != 0 || s.Used() != 2 {
			t.Errorf("%+v; want a ceiling of 2", s)
		}
		f.until("it is full no more", func() bool { s := f.pool.Stats(); return s.Ceiling == 5 && s.Idle == 3 })
	})
}

// When the worker learns of a refusal, the pool is held already: a hold that came later might never be lifted.
func TestHeldBeforeItIsReviewed(t *testing.T) {
	t.Parallel()
	noting, held := false, false
	inBubble(t, pool.Settings{Cap: 2, Warm: 2}, func(f *fake) {
		now := f.worker.now
		f.worker.now = func() pool.Instant { // the refusal's time is taken while the worker cannot review it
			if noting {
				noting, held = false, f.pool.Stats().Held
			}
			return now()
		}
	}, func(f *fake) {
		refused := f.lease()
		noting = true
		f.worker.sessionRefused(Client{})
		if !held {
			t.Error("the refusal is noted before the pool is held")
		}
		f.discard(refused, pool.Full)
		f.after(health.FirstHold)
		if s := f.pool.Stats(); s.Held {
			t.Errorf("it is held for ever: %+v", s)
		}
	})
}

// Clients for whom there is no room under the ceiling are the other backends'.
func TestFullServerLeavesClientsToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4}, func(f *fake) { f.takes(1) }, func(f *fake) {
		f.lease0()
		other := newFake(f.t, f.group, pool.Settings{Cap: 1})
		other.first = 1000
		f.after(0)
		w := new(pool.Waiter[int])
		if _, ok, err := f.group.Acquire(w); ok || err != nil {
			t.Fatal(ok, err)
		}
		f.after(0) // it dials, and is refused
		go other.worker.run()
		defer other.end()
		f.after(time.Second)
		select {
		case n := <-w.Ready():
			if n <= 1000 {
				t.Errorf("the client got connection %d of the full server", n)
			}
		default:
			t.Errorf("the client waits: %+v, %+v", f.pool.Stats(), other.pool.Stats())
		}
	})
}

// lease0 leases a connection that is dialed for it.
func (f *fake) lease0() {
	f.t.Helper()
	w := new(pool.Waiter[int])
	if _, ok, err := f.group.Acquire(w); ok || err != nil {
		f.t.Fatalf("Acquire: %v, %v", ok, err)
	}
	f.after(0)
	<-w.Ready()
}

// A server whose results come too late keeps its sessions and gets no others until fewer are left than its ceiling. The log says it once, and its
// health why and since when.
func TestLateServer(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 8, Warm: 8}, func(f *fake) { f.limit(func(l *limits) { l.LagLimit = time.Second }) }, func(f *fake) {
		f.after(time.Second)
		var leased []int
		for range 6 {
			leased = append(leased, f.lease())
		}
		overfull := false
		read := func(lag time.Duration, readings int) {
			for range readings {
				overfull = f.worker.sessionsLag(LagReading{Lag: lag, Worst: []SessionLag{{Lag: lag}, {Lag: lag}}})
				f.after(time.Second)
			}
		}
		const late, inTime = "WARN backend gets no new sessions above a ceiling", "INFO backend gets sessions up to its cap again"
		read(3*time.Second, 2)
		f.expect(2, 6)
		read(3*time.Second, 3)
		f.expect(0, 6)
		if overfull {
			t.Error("a session should leave after five readings")
		}
		if read(3*time.Second, 2); !overfull {
			t.Error("no session should leave though it has been late for long")
		}
		h := f.report.get()
		if s := f.pool.Stats(); s.Ceiling != 4 || h.CeilingCause != "lag" || h.CeilingReason != "results came 3.0s late at 6 sessions, over lag-limit 1s" || h.CeilingSince.IsZero() {
			t.Errorf("%+v, %+v", s, h)
		}
		f.giveBack(leased[:2]...)
		if number, ok := f.tryLease(); ok {
			t.Errorf("%d was leased beyond the ceiling", number)
		}
		read(3*time.Second, 1)
		if s := f.pool.Stats(); s.Ceiling != 3 || f.lines(late) != 1 {
			t.Errorf("with 4 sessions: %+v; %q", s, f.log.all())
		}
		if read(0, 10*60); overfull {
			t.Error("a session should leave though it is in time")
		}
		h = f.report.get()
		if s := f.pool.Stats(); s.Ceiling != 8 || s.Leased != 4 || h.CeilingCause != "" || h.CeilingReason != "" || f.lines(late) != 1 || f.lines(inTime) != 1 {
			t.Errorf("in time for ten minutes: %+v, %+v; %q", s, h, f.log.all())
		}
		f.lease()
	})
}
