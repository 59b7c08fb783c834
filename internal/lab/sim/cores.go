package sim

import (
	"slices"
	"sync"
	"time"
)

// cores are what all connections of a slow server decode on. Without any, each connection decodes beside the others. Its methods may be
// called from any goroutine.
type cores struct {
	mu   sync.Mutex
	busy []time.Time // guarded by mu; until when each core is
}

// decode takes a core for as long as a piece of audio needs, as soon as one is free, but not before the connection's last piece is done. It
// returns when this one is done.
func (c *cores) decode(notBefore time.Time, need time.Duration) time.Time {
	if len(c.busy) == 0 {
		return notBefore.Add(need)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := 0
	for i, until := range c.busy {
		if until.Before(c.busy[first]) {
			first = i
		}
	}
	c.busy[first] = slices.MaxFunc([]time.Time{notBefore, c.busy[first]}, time.Time.Compare).Add(need)
	return c.busy[first]
}
