//go:build linux

package upgradeproof

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	// patience is how long a client waits for its session, or for an answer.
	patience = 60 * time.Second
	// margin is how long before and after a hand-over a client is said to come around it.
	margin = time.Second
	// pace is the longest time between two messages of a session.
	pace = time.Second
	// beginRate is how many of the sessions that last begin in a second.
	beginRate = 500
)

// The kinds of failures.
const (
	refused = "a client was refused"                            // no connection, or an answer other than 101
	reset   = "a connection ended before its session began"     //
	cut     = "a session was cut"                               // it ended before its client wanted that
	lost    = "a message did not come back, or another one did" //
)

// clients are all clients of an echo service. Any goroutine may use them.
type clients struct {
	url     string
	journal *kit.Journal

	mu       sync.Mutex
	taken    []arrival // guarded by mu
	messages int       // guarded by mu
	hunts    uint64    // guarded by mu
}

// arrival is how long a client took to get its session.
type arrival struct {
	at   time.Time
	took time.Duration
}

func newClients(url string, j *kit.Journal) *clients { return &clients{url: url, journal: j} }

// stay begins sessions that last until leave is called, which waits for their ends.
func (c *clients) stay(ctx context.Context, sessions int) (leave func()) {
	return c.hunt(ctx, hunt.Options{Sessions: sessions, Concurrency: sessions, Rate: beginRate, Lasting: true})
}

// come has clients come at a rate, each of whom says up to three things within three seconds and leaves, until the returned function is called, which waits
// until all have left.
func (c *clients) come(ctx context.Context, rate int) (stop func()) {
	return c.hunt(ctx, hunt.Options{Sessions: 1 << 30, Concurrency: min(30*rate, 10_000), Rate: float64(rate), MaxChunks: 3})
}

// once has one client come.
func (c *clients) once(ctx context.Context) {
	c.hunt(ctx, hunt.Options{Sessions: 1, Concurrency: 1, MaxChunks: 1})()
}

// hunt begins a hunt. The returned function lets no session begin, and waits until all have ended.
func (c *clients) hunt(ctx context.Context, o hunt.Options) (end func()) {
	c.mu.Lock()
	c.hunts++
	o.First = c.hunts * 1e9
	c.mu.Unlock()
	finish, ended := make(chan struct{}), make(chan struct{})
	o.URL, o.Protocol, o.Exact, o.Manners, o.Finish, o.Outcome = c.url, sim.Echo, true, hunt.Manners{hunt.CleanEnd: 1}, finish, c.judge
	o.Pace, o.Timeout, o.Traces = pace, patience, min(4*o.Concurrency, 1<<14)
	go func() {
		defer close(ended)
		report, err := hunt.Run(ctx, o)
		if err != nil && ctx.Err() == nil {
			c.journal.Violation("", "clients could not run", nil, "%v", err)
		}
		if err := report.Err(); err != nil {
			c.journal.Violation("", lost, nil, "%v", err)
		}
		c.mu.Lock()
		c.messages += report.Sent
		c.mu.Unlock()
	}()
	var once sync.Once
	return func() {
		if o.Sessions == 1 && !o.Lasting { // it comes to its end by itself
			<-ended
		}
		once.Do(func() { close(finish) })
		<-ended
	}
}

// judge takes in how a session ended.
func (c *clients) judge(o hunt.Outcome) {
	if o.Upgraded > 0 {
		c.mu.Lock()
		c.taken = append(c.taken, arrival{o.Began, o.Upgraded})
		c.mu.Unlock()
	}
	if o.Succeeded() {
		return
	}
	kind := cut
	switch {
	case o.Upgraded == 0 && (o.Kind == hunt.Reset || o.Kind == hunt.EndWithoutClose):
		kind = reset
	case o.Upgraded == 0:
		kind = refused
	case o.Mute || o.Foreign+o.Lost+o.Twice > 0 || o.Kind == hunt.Timeout:
		kind = lost
	}
	c.journal.Violation("", kind, strings.Split(strings.TrimSpace(o.Trace()), "\n"), "session %d, after %v: %s %s", o.Session, time.Since(o.Began), o.Kind, o.Reason)
}

// times returns how long clients took to get their sessions, sorted: those who came around hand-overs, and all others.
func (c *clients) times(upgrades []upgrade) (calm, around []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.taken {
		near := slices.ContainsFunc(upgrades, func(u upgrade) bool {
			return a.at.After(u.from.Add(-margin)) && a.at.Before(u.to.Add(margin))
		})
		if near {
			around = append(around, a.took)
		} else {
			calm = append(calm, a.took)
		}
	}
	slices.Sort(calm)
	slices.Sort(around)
	return calm, around
}
