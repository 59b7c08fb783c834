//go:build linux

package scenes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// crowd is clients that stream speech, one session after the other.
type crowd struct {
	*kit.Crew

	mu       sync.Mutex
	answers  int   // guarded by mu: of servers
	sessions int   // guarded by mu: that have ended
	failed   int   // guarded by mu: of these
	first    error // guarded by mu: why the first of them failed
}

func newCrowd() *crowd { return &crowd{Crew: kit.NewCrew(context.Background())} }

// heard takes in an answer.
func (c *crowd) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
}

// ended takes in how a session ended.
func (c *crowd) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	if err == nil {
		return
	}
	if c.failed++; c.failed == 1 {
		c.first = err
	}
}

// served reports whether a client has had an answer, and hasEnded whether a session has ended.
func (c *crowd) served() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers > 0
}

func (c *crowd) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions > 0
}

// spared returns an error unless there were sessions, and all of them ended well.
func (c *crowd) spared() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sessions == 0:
		return errors.New("no session of clients that must notice nothing has ended")
	case c.failed > 0:
		return fmt.Errorf("clients noticed what they must not: %d of %d sessions failed, the first with: %w", c.failed, c.sessions, c.first)
	}
	return nil
}
