package external

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// tolerated is how many questions in a row may fail before the server is left alone for a moment. Failures that a client may have provoked count once
	// for each network in a row, so that one client alone does not close the service to others.
	tolerated = 5
	// The first and the longest such moment.
	firstRest, longestRest = time.Second, 10 * time.Second
)

// circuit decides whether a server is asked. It lets all questions pass while the server answers. After failures in a row it lets none
// pass for a moment, and then one, which decides. Any goroutine may use it.
type circuit struct {
	log   *slog.Logger // static
	allow bool         // static; what becomes of clients meanwhile, for the log

	mu     sync.Mutex
	failed int           // guarded by mu; questions in a row
	by     []netip.Addr  // guarded by mu; the latest networks whose failures among these may have been provoked
	since  time.Time     // guarded by mu; of the first of them
	reason string        // guarded by mu; of the last of them
	rest   time.Duration // guarded by mu; the present one, or the last one
	until  time.Time     // guarded by mu; the end of the rest
	trying bool          // guarded by mu; one question is asked to see whether the server answers again
}

// enter returns an error if the server is not to be asked. Otherwise leave must be called.
func (c *circuit) enter(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failed < tolerated:
		return nil
	case now.Before(c.until) || c.trying:
		return fmt.Errorf("the authentication server is not asked for a moment, since %d questions in a row have failed: %s", c.failed, c.reason)
	}
	c.trying = true
	return nil
}

// leave notes how a question about a client of a network has ended: with an answer, or with an error. Unless it counts, it says nothing about the server.
func (c *circuit) leave(network netip.Addr, err error, counts bool, now time.Time) {
	c.mu.Lock()
	failed, since := c.failed, c.since
	if counts && isProvoked(err) {
		if counts = network.IsValid() && !slices.Contains(c.by, network); counts {
			c.by = append(c.by[max(0, len(c.by)-tolerated):], network)
		}
	}
	c.note(err, counts, now)
	c.mu.Unlock()
	switch {
	case err == nil && failed > 0:
		c.log.Info("the authentication server answers again", "after", now.Sub(since), "failures", failed)
	case err != nil && counts && failed == 0:
		consequence := "clients are refused with 503"
		if c.allow {
			consequence = "clients are let in without authentication"
		}
		c.log.Warn("the authentication server fails: "+consequence, "reason", err.Error())
	}
}

// note is leave without the log. It is called with mu held.
func (c *circuit) note(err error, counts bool, now time.Time) {
	c.trying = false
	switch {
	case err != nil && !counts:
		return
	case err == nil:
		c.failed, c.by, c.rest = 0, nil, 0
		return
	}
	if c.failed == 0 {
		c.since = now
	}
	c.failed++
	c.reason = err.Error()
	if c.failed >= tolerated && !now.Before(c.until) {
		c.rest = min(max(2*c.rest, firstRest), longestRest)
		c.until = now.Add(c.rest)
	}
}
