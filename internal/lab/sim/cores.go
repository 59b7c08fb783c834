package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// cores are what all connections of a slow server decode on. Without any, each connection decodes beside the others. Its methods may be
// called from any goroutine.
type cores struct {
	law string // static; one of Laws

	mu     sync.Mutex
	busy   []time.Time   // guarded by mu; until when each core is
	worked time.Duration // guarded by mu; what was decoded until now has taken
}

// decode takes a core for as long as a piece of audio needs, as soon as one is free, but not before the connection's last piece is done. It
// returns when this one is done.
func (c *cores) decode(notBefore time.Time, need time.Duration) time.Time {
	if len(c.busy) == 0 {
		return notBefore.Add(need)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	need = c.bent(need)
	c.worked += need
	first := 0
	for i, until := range c.busy {
		if until.Before(c.busy[first]) {
			first = i
		}
	}
	c.busy[first] = slices.MaxFunc([]time.Time{notBefore, c.busy[first]}, time.Time.Compare).Add(need)
	return c.busy[first]
}

// Laws are the ways in which a server differs from one that decodes FailOptions.Streams at full speed.
var Laws = []string{slowStart, thermal, noisy}

const (
	slowStart = "slow-start"
	thermal   = "thermal"
	noisy     = "noisy"
)

// bent returns how long a piece of audio takes by the server's law. The caller holds mu.
func (c *cores) bent(need time.Duration) time.Duration {
	switch {
	case c.law == slowStart && c.worked < 5*time.Second:
		return 2 * need
	case c.law == thermal && c.worked > time.Minute:
		return need * 10 / 9
	case c.law == noisy:
		return time.Duration(float64(need) * (0.8 + 0.4*rand.Float64()))
	}
	return need
}
