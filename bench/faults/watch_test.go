package faults

import (
	"fmt"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// watch looks at the proxy's statistics and at the servers' own counts all the time: what must hold at every instant.
type watch struct {
	stop func() // ends it, and says what was wrong

	mu                  sync.Mutex
	resetting, retiring int // most connections of the victim that were seen so at once; guarded by mu
}

// lookEvery is the time between two looks.
const lookEvery = 5 * time.Millisecond

func startWatch(r *rig) *watch {
	w := &watch{}
	end, ended := make(chan struct{}), make(chan struct{})
	wrong := make(map[string]string)
	looks := 0
	go func() {
		defer close(ended)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for ; !closed(end); looks++ {
			all := r.proxy.Stats()
			for what, detail := range r.check(all) {
				if _, ok := wrong[what]; !ok {
					wrong[what] = detail
				}
			}
			w.note(all.Backends[0])
			<-ticker.C
		}
	}()
	w.stop = sync.OnceFunc(func() {
		close(end)
		<-ended
		for what, detail := range wrong {
			r.t.Errorf("%s: %s", what, detail)
		}
		r.t.Logf("looked at the statistics %d times", looks)
	})
	return w
}

func (w *watch) note(victim api.Backend) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resetting, w.retiring = max(w.resetting, victim.Resetting), max(w.retiring, victim.Retiring)
}

// seen returns how many connections of the victim were being reset and were being closed at once, at most.
func (w *watch) seen() (resetting, retiring int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resetting, w.retiring
}

// check returns what does not hold, with the details.
func (r *rig) check(all api.Stats) map[string]string {
	wrong := make(map[string]string)
	for i, b := range all.Backends {
		name, t := r.servers[i].way.Name, b.Totals
		expect := func(what string, ok bool) {
			if !ok {
				wrong[name+": "+what] = fmt.Sprintf("%+v", b.Pool)
			}
		}
		expect("the proxy has more connections than the cap", b.Used() <= b.Cap)
		expect("leases begun are not those that ended and those that last",
			t.Leased == t.Returned+t.Discarded+uint64(b.Leased+b.Resetting))
		expect("connections dialed are not those that were retired and those that there are",
			t.Dialed == t.Discarded+t.RetiredIdle+uint64(b.Idle+b.Leased+b.Resetting))
		expect("the reasons do not add up", sum(t.Reasons) == t.Discarded+t.RetiredIdle)
		if peak := r.servers[i].sim.Stats().Peak; peak > b.Cap {
			wrong[name+": the server has seen more connections than the cap"] = fmt.Sprint(peak)
		}
	}
	return wrong
}

func sum(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
