package backend

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// What clients, servers and an operator may do in the world of TestModel.

// modelCap is the largest cap.
const modelCap = 4

func (w *world) settings() pool.Settings {
	return pool.Settings{
		Cap: rapid.IntRange(1, modelCap).Draw(w.t, "cap"), Warm: rapid.IntRange(0, 4).Draw(w.t, "warm"),
		Weight:   float64(rapid.IntRange(0, 4).Draw(w.t, "weight")) / 2,
		Variants: w.keeps(),
	}
}

// keeps returns how many variants the backends keep warm: fewer than there are, if there is more than one.
func (w *world) keeps() int { return len(w.variants) - 1 }

func (w *world) backend() *fake {
	return w.backends[rapid.IntRange(0, len(w.backends)-1).Draw(w.t, "backend")] // not the backend itself: rapid prints it
}

// burst does several things at the same time.
func (w *world) burst(t *rapid.T) {
	operations := w.operations()
	names := make([]string, 0, len(operations))
	for name := range operations {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []func()
	for range rapid.IntRange(2, 6).Draw(t, "size") {
		if do := operations[rapid.SampledFrom(names).Draw(t, "operation")](); do != nil {
			all = append(all, do)
		}
	}
	for _, do := range all {
		go do()
	}
}

// operations returns what may happen. Each draws what it needs, so that it can then be done in any goroutine; nil when there
// is nothing to do it with.
func (w *world) operations() map[string]func() func() {
	duration := func(of ...time.Duration) time.Duration { return rapid.SampledFrom(of).Draw(w.t, "duration") }
	return map[string]func() func(){
		"client comes":  w.clientComes,
		"client comes2": w.clientComes, // as often as the others together need
		"client leaves": w.clientLeaves,
		"session ends":  func() func() { return w.ends(&w.held, func(f *fake, n int) { f.finish(n, "") }) },
		"session ends2": func() func() { return w.ends(&w.held, func(f *fake, n int) { f.finish(n, "") }) },
		"session breaks": func() func() {
			return w.ends(&w.held, func(f *fake, n int) { f.finish(n, "vanished") })
		},
		"connection is reset": func() func() {
			return w.ends(&w.held, func(f *fake, n int) {
				reset(f.slot(n))
				w.mu.Lock()
				w.resetting = append(w.resetting, n)
				w.mu.Unlock()
			})
		},
		"reset is done":  func() func() { return w.ends(&w.resetting, func(f *fake, n int) { f.finish(n, "") }) },
		"reset is done2": func() func() { return w.ends(&w.resetting, func(f *fake, n int) { f.finish(n, "") }) },
		"reset fails": func() func() {
			return w.ends(&w.resetting, func(f *fake, n int) { f.discard(n, pool.ResetFailed) })
		},
		"connection is lost": w.connectionIsLost,
		"server accepts": func() func() {
			f, after := w.backend(), duration(0, 0, time.Millisecond, time.Second)
			return func() { f.accept(after) }
		},
		"server refuses": func() func() {
			f, after := w.backend(), duration(0, time.Millisecond, time.Second)
			return func() { f.refuse(after) }
		},
		"server wants a key": func() func() {
			f, after := w.backend(), duration(time.Millisecond, time.Second)
			return func() { f.wantKey(after) }
		},
		"server is full": func() func() {
			f, n := w.backend(), rapid.IntRange(0, 3).Draw(w.t, "takes")
			return func() { f.takes(n) }
		},
		"session is told full": func() func() {
			return w.ends(&w.held, func(f *fake, n int) { f.worker.sessionRefused(Client{}); f.finish(n, "told full") })
		},
		"server hangs up": func() func() {
			f, lasts := w.backend(), duration(0, 0, time.Millisecond, 100*time.Millisecond, 2*time.Second)
			return func() { f.set(func() { f.lasts = lasts }) }
		},
		"probe takes a place": func() func() {
			f, takes := w.backend(), duration(0, time.Millisecond, time.Second)
			return func() { f.probeUpgrade(takes) }
		},
		"time passes": func() func() {
			d := duration(0, time.Millisecond, 100*time.Millisecond, time.Second, 10*time.Second, 2*time.Minute)
			return func() { time.Sleep(d) }
		},
		"time passes2": func() func() {
			d := duration(time.Second, 10*time.Second)
			return func() { time.Sleep(d) }
		},
	}
}

// got takes a lease. It is called with the mutex held.
func (w *world) got(number int) {
	if slices.Contains(w.held, number) || slices.Contains(w.resetting, number) {
		w.t.Errorf("connection %d serves two sessions", number)
	}
	w.held = append(w.held, number)
	w.of(number).worker.serves()
}

// of returns the backend of a connection.
func (w *world) of(number int) *fake { return w.backends[number/1_000_000] }

// ends takes a connection from those of a kind and does something with it.
func (w *world) ends(kind *[]int, do func(*fake, int)) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*kind) == 0 {
		return nil
	}
	number := rapid.SampledFrom(*kind).Draw(w.t, "connection")
	*kind = slices.DeleteFunc(*kind, func(other int) bool { return other == number })
	return func() { do(w.of(number), number) }
}

func (w *world) connectionIsLost() func() {
	f := w.backend()
	number, ok := f.draw(w.t)
	if !ok {
		return nil
	}
	return func() { f.lose(number) }
}

// draw draws a connection that is not retired.
func (f *fake) draw(t *rapid.T) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var there []int
	for number, c := range f.conns {
		if state := c.slot.State(); !c.broken && (state == pool.Idle || state == pool.Leased || state == pool.Resetting) {
			there = append(there, number)
		}
	}
	if len(there) == 0 {
		return 0, false
	}
	slices.Sort(there)
	return rapid.SampledFrom(there).Draw(t, "connection"), true
}

// sees returns how many connections the server sees.
func (f *fake) sees() (there int) {
	f.set(func() { there = f.there })
	return there
}

// onTrial reports whether the server gets one session at a time.
func (f *fake) onTrial() (trial bool) {
	f.worker.locked(func(t *health.Tracker) { trial = t.Trial() > 0 })
	return trial
}

// finish ends a lease: the connection is idle again, unless it or the session was broken.
func (f *fake) finish(number int, fault string) {
	f.worker.sessionEnded(health.SessionEnd{Fault: fault}, f.worker.now())
	f.mu.Lock()
	broken := f.conns[number].broken
	f.mu.Unlock()
	if broken || fault != "" {
		f.discard(number, pool.Broken)
	} else {
		giveBack(f.slot(number))
	}
}

// discard ends a lease with the connection being closed.
func (f *fake) discard(number int, reason pool.Reason) {
	discard(f.slot(number), reason)
	f.close(number)
}

// probeUpgrade takes a place for a while, as the probe does that upgrades a connection.
func (f *fake) probeUpgrade(takes time.Duration) {
	done, ok := f.pool.ReserveProbe()
	if !ok {
		return
	}
	f.set(func() { f.there++ })
	later(takes, func() {
		f.set(func() { f.there-- })
		done()
	})
}
