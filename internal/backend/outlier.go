package backend

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// A backend on which far more sessions fail than on its peers gets no new ones for a while. What the peers do is what tells a sick
// server from a bad client: a client whose sessions fail wherever they run makes no backend worse than the others. So once a
// backend is left out, and its clients go to its peers, it comes back at once if sessions fail there as well.

const (
	outlierHalfLife = 10 * time.Second // in which what was counted comes to count half
	outlierShare    = 0.5              // of the sessions that began must have failed
	outlierFactor   = 2                // times the share of the peers' sessions that failed
	outlierRest     = 5 * time.Second  // for how long the backend is left out; as much more each time
	outlierMostRest = time.Minute
	outlierLook     = 250 * time.Millisecond // between two looks whether a backend that is left out may come back
	outlierForget   = 5 * time.Minute        // without being left out, after which the first time is the first again
)

// Peers compares the backends of a service, by the sessions that fail on them. It is shared by them and may be used from any
// goroutine. The zero value is ready.
type Peers struct {
	mu   sync.Mutex
	list []*conduct // guarded by mu
}

// conduct is how the sessions of one backend have gone lately.
type conduct struct {
	peers *Peers
	// serves tells whether the backend gets sessions. Static; it must not use Peers.
	serves func() bool

	// Guarded by Peers.mu. The two numbers are of the time at.
	began, failed float64
	at            pool.Instant
	out           bool         // the backend is left out
	until         pool.Instant // at most so long, when it is; otherwise since when it is back
	times         int          // how often it was lately
	share         float64      // of its sessions that failed, when it was left out
}

// join adds a backend. A nil Peers compares nothing.
func (p *Peers) join(serves func() bool) *conduct {
	c := &conduct{peers: p, serves: serves}
	if p != nil {
		p.mu.Lock()
		p.list = append(p.list, c)
		p.mu.Unlock()
	}
	return c
}

// leave takes the backend out of the comparison for good.
func (c *conduct) leave() {
	if c.peers == nil {
		return
	}
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	for i, other := range c.peers.list {
		if other == c {
			c.peers.list = append(c.peers.list[:i:i], c.peers.list[i+1:]...)
			return
		}
	}
}

// sessionBegan notes that a session began.
func (c *conduct) sessionBegan(now pool.Instant) {
	if c.peers == nil {
		return
	}
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	c.age(now)
	c.began++
}

// sessionFailed notes that one has failed.
func (c *conduct) sessionFailed(now pool.Instant) {
	if c.peers == nil {
		return
	}
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	c.age(now)
	c.failed++
}

// age has what was counted count less, for the time that has passed.
func (c *conduct) age(now pool.Instant) {
	if passed := time.Duration(now - c.at); passed > 0 {
		rest := math.Exp2(-float64(passed) / float64(outlierHalfLife))
		c.began, c.failed = c.began*rest, c.failed*rest
	}
	c.at = now
}

// share returns the share of sessions that failed. A part of one, which is what is left of what was long ago, is none.
func share(failed, began float64) float64 { return failed / max(began, failed, 1) }

// look decides whether the backend is left out, if at least so many sessions have failed. It returns why when it is left out now,
// and was not before.
func (c *conduct) look(now pool.Instant, least int) (out bool, why string) {
	if c.peers == nil {
		return false, ""
	}
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	c.age(now)
	if !c.out && c.failed < float64(least)-0.5 { // as nearly always: there is nothing to compare
		return false, ""
	}
	serving, outside := 0, 0 // of the others
	var failed, began float64
	for _, other := range c.peers.list {
		switch {
		case other == c:
		case other.out:
			outside++
		case other.serves():
			serving++
			other.age(now)
			failed, began = failed+other.failed, began+other.began
		}
	}
	if !c.out {
		c.share = share(c.failed, c.began)
	}
	worse := c.share >= outlierShare && c.share > outlierFactor*share(failed, began)
	switch {
	case c.out && now >= c.until:
		c.out, c.began, c.failed = false, 0, 0 // a new chance
	case c.out && (!worse || serving == 0):
		c.out, c.until = false, now
	case !c.out && worse && serving > outside:
		if time.Duration(now-c.until) > outlierForget {
			c.times = 0
		}
		c.times++
		rest := min(time.Duration(c.times)*outlierRest, outlierMostRest)
		c.out, c.until = true, now+pool.Instant(jittered(rest))
		why = fmt.Sprintf("%.0f of its last %.0f sessions failed, and %.0f of %.0f on the others", c.failed, max(c.began, c.failed), failed, began)
	}
	return c.out, why
}
