package backend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// How the worker ends. That it leaves no goroutine is seen by the bubble, which panics otherwise.

// A dial that takes long is cut short and given up: the end of the proxy is no failure of the server.
func TestStopDuringLongDial(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, func(f *fake) { f.accept(time.Hour) }, func(f *fake) {
		f.after(time.Second)
		begun := time.Now()
		f.worker.stop(context.Background())
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %v", took)
		}
		f.expect(0, 0)
		if s := f.pool.Stats(); s.Totals.DialFailed != 0 || s.Totals.Dialed != 0 {
			t.Errorf("stats: %+v", s)
		}
		if h := f.report.get(); h.Reason != notDialed {
			t.Errorf("health: %+v", h)
		}
		f.log.expect(t)
	})
}

// One that does not heed its context is waited for as long as there is time, and what it has established has a place.
func TestStopWaitsForDials(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, func(f *fake) {
		f.dial = func(context.Context) error { time.Sleep(time.Minute); return nil }
	}, func(f *fake) {
		begun := time.Now()
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		f.worker.stop(limited)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("with a second of time, it took %v", took)
		}
		f.worker.stop(context.Background())
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("took %v", took)
		}
		f.after(0)
		f.expect(3, 0)
		f.log.expect(t)
	})
}

// Whenever it is stopped, it begins no dial after that, though there are signals and results at the same time.
func TestStopStartsNoDial(t *testing.T) {
	t.Parallel()
	for range 200 {
		inBubble(t, pool.Settings{Cap: 50, Warm: 50}, func(f *fake) {
			f.parallel(2)
			f.accept(time.Millisecond)
		}, func(f *fake) {
			stopped := make(chan struct{})
			time.AfterFunc(5*time.Millisecond, func() { // when dials end
				f.worker.stop(context.Background())
				close(stopped)
			})
			time.AfterFunc(5*time.Millisecond, f.worker.signal)
			<-stopped
			before, _ := f.attempts()
			for range 3 {
				f.worker.signal()
				f.worker.sessionEnded(health.SessionEnd{Fault: "backend vanished"}, f.worker.now())
				f.after(time.Minute)
			}
			if now, _ := f.attempts(); len(now) != len(before) {
				t.Fatalf("%d dials after the end", len(now)-len(before))
			}
			if s := f.pool.Stats(); s.Dialing != 0 || s.Idle < 8 || s.Idle > 12 {
				t.Fatalf("stats: %+v", s)
			}
		})
	}
}

// It may be stopped while it waits to dial again, and more than once.
func TestStopWhileFailing(t *testing.T) {
	t.Parallel()
	inBubble(t, pool.Settings{Cap: 4, Warm: 3}, func(f *fake) { f.refuse(0) }, func(f *fake) {
		f.after(time.Minute)
		f.worker.stop(context.Background())
		f.worker.stop(context.Background())
		synctest.Wait()
		f.log.expect(t, notReachable+"refused", opened+"refused")
	})
}
