//go:build linux

package upgradeproof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// countInterval is the time between two counts.
const countInterval = 50 * time.Millisecond

// counter counts the connections of servers as their kernel sees them: from the first packet of the handshake until it has seen the end of both
// sides. Its methods may be called from any goroutine.
type counter struct {
	journal *kit.Journal
	stop    func()

	mu      sync.Mutex
	highest []int // guarded by mu: by server
}

func startCounter(k *kit.Kernel, servers int, j *kit.Journal) *counter {
	crew := kit.NewCrew(context.Background())
	c := &counter{journal: j, stop: crew.End, highest: make([]int, servers)}
	crew.Go(func(ctx context.Context) {
		defer k.Close()
		for kit.Wait(ctx, countInterval) == nil {
			first, err := k.Sockets(nil)
			second, failed := k.Sockets(nil)
			if err = errors.Join(err, failed); err != nil {
				j.Violation("", "the kernel does not say what it sees", nil, "%v", err)
				return
			}
			c.take(kit.Both(first, second))
		}
	})
	return c
}

// take takes in the connections that there were at one moment.
func (c *counter) take(all []kit.Socket) {
	now := make([]int, len(c.highest))
	for _, s := range all {
		for i := range now {
			if s.Server == kit.ServerAddress(i) {
				now[i]++
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range now {
		c.highest[i] = max(c.highest[i], n)
	}
}

// end ends the counts and returns the most connections that each server has had, a line for each. More than the cap is a violation, unless it is counted
// only, and so is none at all: then nothing was proven.
func (c *counter) end(limit int, countOnly bool) (lines []string) {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Max(c.highest) == 0 {
		c.journal.Violation("", "no connection was counted", nil, "none of the %d servers had one, so nothing was proven about their caps", len(c.highest))
	}
	for i, most := range c.highest {
		lines = append(lines, fmt.Sprintf("server %d: at most %d connections, cap %d", i+1, most, limit))
		if most > limit && !countOnly {
			c.journal.Violation("", "a server had more connections than its cap", nil, "server %d had %d connections; its cap is %d", i+1, most, limit)
		}
	}
	return lines
}
