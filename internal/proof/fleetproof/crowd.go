//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	// gang is how many clients move from one proxy to another at a time.
	gang = 25
	// patience is how long a client waits for its turn, or for an answer: longer than anything that happens to its proxy.
	patience = 3 * time.Minute
	// pace is the longest pause of a client before each of its messages.
	pace = time.Second
	// grace is how long after the end of a process its clients may still notice it.
	grace = 10 * time.Second
)

// crowd is all clients. Each gang is a hunt of its own at one proxy. One goroutine calls its methods but outcome.
type crowd struct {
	ctx     context.Context
	vanish  context.CancelFunc // for all
	journal *kit.Journal
	seed    uint64
	gangs   [][]*clients // by proxy
	// finishing are those who have left a proxy and end their sessions first.
	finishing []*clients
	tasks     sync.WaitGroup
	begun     uint64

	mu       sync.Mutex
	excused  []excuse       // guarded by mu: by proxy
	endings  map[string]int // guarded by mu: how sessions failed, and why they may
	sessions int            // guarded by mu
	good     int            // guarded by mu
	cut      int            // guarded by mu: sessions that ended because their proxy did
}

// clients is one gang.
type clients struct {
	finish chan struct{}      // closed for those who end their sessions first
	vanish context.CancelFunc // for those who do not
}

// excuse says why sessions of a proxy may fail, from one moment to another. Refusals only: the listener was closed in order, and sessions
// that had begun continue.
type excuse struct {
	why      string
	refusals bool
	from     time.Time
	to       time.Time // zero for not yet
	// replaced is when another process had begun to serve: sessions that began after that have no excuse. Zero for not yet.
	replaced time.Time
}

func newCrowd(ctx context.Context, proxies int, seed uint64, j *kit.Journal) *crowd {
	ctx, vanish := context.WithCancel(ctx)
	return &crowd{
		ctx: ctx, vanish: vanish, journal: j, seed: seed, gangs: make([][]*clients, proxies), excused: make([]excuse, proxies), endings: make(map[string]int),
	}
}

// place has the clients be where the shares say: each proxy gets its part of all gangs. Those who leave a proxy vanish at once, or stay until
// their sessions have ended; of these, those who still wait after some time vanish then.
func (c *crowd) place(proxies []*proxy, sessions int, shares []int, vanish bool) {
	sum := 0
	for _, share := range shares {
		sum += share
	}
	if sum == 0 {
		return
	}
	if vanish {
		for _, g := range c.finishing {
			g.vanish()
		}
		c.finishing = nil
	}
	var counts []string
	for i, p := range proxies {
		want := sessions * shares[i] / sum / gang
		if shares[i] > 0 {
			want = max(want, 1)
		}
		for len(c.gangs[i]) > want {
			last := len(c.gangs[i]) - 1
			g := c.gangs[i][last]
			close(g.finish)
			if vanish {
				g.vanish()
			} else { // so that those who still wait do not become thousands, more than a listener's queue has room for
				time.AfterFunc(sessionLimit, g.vanish)
				c.finishing = append(c.finishing, g)
			}
			c.gangs[i] = c.gangs[i][:last]
		}
		for len(c.gangs[i]) < want {
			c.gangs[i] = append(c.gangs[i], c.hunt(i, p.Listen))
		}
		counts = append(counts, fmt.Sprint(want*gang))
	}
	c.journal.Event("clients at the proxies: %s", strings.Join(counts, ", "))
}

// hunt begins a gang at a proxy.
func (c *crowd) hunt(index int, address string) *clients {
	ctx, vanish := context.WithCancel(c.ctx)
	g := &clients{finish: make(chan struct{}), vanish: vanish}
	c.begun++
	first := c.begun * 1e7
	c.tasks.Go(func() {
		defer vanish()
		report, err := hunt.Run(ctx, hunt.Options{
			URL: "ws://" + address + "/echo", Protocol: sim.Echo, Sessions: 1 << 30, Concurrency: gang, Seed: c.seed + first, First: first, Exact: true,
			Timeout: patience, Traces: 4 * gang, Pace: pace, Finish: g.finish, Outcome: func(o hunt.Outcome) { c.outcome(index, o) },
		})
		if err := report.Err(); err != nil {
			c.journal.Violation("", "a session got another one's echo", nil, "%v", err)
		}
		if err != nil && ctx.Err() == nil {
			c.journal.Violation("", "clients could not run", nil, "%v", err)
		}
	})
	return g
}

// excuse says that from now on, sessions of a proxy may fail, or clients be refused there; pardon that they may no more, but for the grace, and for
// those alone that began before another process served.
func (c *crowd) excuse(index int, why string, refusals bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused[index] = excuse{why: why, refusals: refusals, from: time.Now()}
}

func (c *crowd) pardon(index int, replaced time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excused[index].to, c.excused[index].replaced = time.Now(), replaced
}

// outcome judges how a session ended. It may be called from any goroutine.
func (c *crowd) outcome(index int, o hunt.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	if o.Succeeded() {
		c.good++
		return
	}
	what := o.Kind
	if o.Status > 0 {
		what = fmt.Sprintf("HTTP %d", o.Status)
	}
	if o.Code > 0 {
		what = fmt.Sprintf("close %v %q", o.Code, o.Reason)
	}
	if o.Foreign+o.Lost+o.Twice > 0 || o.Mute {
		what += fmt.Sprintf(" (%d foreign, %d lost, %d repeated messages)", o.Foreign, o.Lost, o.Twice)
	}
	if strings.HasPrefix(what, "dial:") {
		what = "connection refused"
	}
	trace := o.Trace()
	begun := strings.Contains(trace, "received") // of the server
	refusal := !begun && (what == "connection refused" || o.Status == 503 || o.Code == frame.TryAgainLater || what == hunt.Reset || what == hunt.EndWithoutClose)
	e := c.excused[index]
	within := !e.from.IsZero() && (e.to.IsZero() || time.Since(e.to) < grace && o.Began.Before(e.replaced))
	if within && (refusal || !e.refusals) && o.Foreign+o.Lost+o.Twice == 0 {
		c.endings[what+": "+e.why]++
		if !e.refusals && begun {
			c.cut++
		}
		return
	}
	c.endings[what+": without a reason"]++
	c.journal.Violation("", "a session on a living proxy failed", strings.Split(strings.TrimSpace(trace), "\n"),
		"proxy-%d, session %d: %s", index+1, o.Session, what)
}

// cuts returns how many sessions their proxies' ends have cut so far.
func (c *crowd) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// leave lets no further session begin. Those clients that are left after a time vanish, most of them while they wait. It returns false if some are
// left for long then.
func (c *crowd) leave(ctx context.Context, patience time.Duration) bool {
	for _, all := range c.gangs {
		for _, g := range all {
			close(g.finish)
		}
	}
	_ = kit.Wait(ctx, patience)
	c.vanish()
	clear(c.gangs)
	ended := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(ended)
	}()
	return !kit.WaitOr(context.Background(), kit.StartTimeout, ended)
}

// summary returns how sessions ended.
func (c *crowd) summary() (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines = append(lines, fmt.Sprintf("%d sessions, %d of them well", c.sessions, c.good))
	for _, what := range slices.Sorted(maps.Keys(c.endings)) {
		lines = append(lines, fmt.Sprintf("%6d  %s", c.endings[what], what))
	}
	return lines
}
