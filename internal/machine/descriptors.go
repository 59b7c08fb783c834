package machine

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unlimited is a limit that nothing reaches.
	unlimited = math.MaxInt32
	// usual is about how many descriptors a process has that does nothing yet, where that cannot be counted.
	usual = 32
	// perDial is how many descriptors a dial takes for a moment: the socket and its duplicate.
	perDial = 2
	// calm is how long nothing must fail for a shortage to be over. Whoever fails tries again every second at least.
	calm = 3 * time.Second
	// shedPause is the least time between two rounds of closing idle connections, which need a moment to be gone.
	shedPause = 50 * time.Millisecond
)

// Options are what descriptors are counted by. All fields are required, unless a default is named.
type Options struct {
	// Limit returns how many descriptors the process may have; default [Limit].
	Limit func() int
	// Used returns how many it has; by default the system is asked, or they are counted.
	Used func() int
	// Connections returns how many connections there are, of clients and to servers.
	Connections func() int64
	// Clients returns how many of them are clients'.
	Clients func() int64
	// Shed closes about so many idle connections to servers, to make room for clients, and returns how many. It must not block.
	Shed func(n int) int
	// Share closes an idle connection to the server that has the most, if those are several, to make room for one that has none. It
	// must not block; default none.
	Share func()
	// Log gets a line when a shortage begins and one when it is over.
	Log *slog.Logger
}

// Descriptors shares out the descriptors of the process: connections to servers are dialed only while enough are left for their
// clients and for the admin API. And it keeps the book of what fails because something is short on this machine. Its methods may
// be called from any goroutine. A nil pointer is one without limits, and without a book.
type Descriptors struct {
	o       Options
	before  int          // descriptors in use at the start, where the system does not tell later
	dialing atomic.Int64 // dials under way

	mu       sync.Mutex
	episodes [activities]episode // guarded by mu
	shedAt   time.Time           // guarded by mu: when idle connections were closed last
	starving time.Time           // guarded by mu: when a server without any connection was refused one last
	timer    *time.Timer         // guarded by mu: looks whether it is over; nil while nothing is short
	closed   bool                // guarded by mu
}

// Activity is what fails when something is short.
type Activity uint8

// The activities.
const (
	// Accepting clients: nothing may be more urgent.
	Accepting Activity = iota
	// Dialing servers.
	Dialing
	activities = int(Dialing) + 1
)

// episode is a time in which something was short. The zero value is none.
type episode struct {
	begun, last time.Time
	failed      uint64 // attempts
	shed        int    // idle connections closed
	why         string
}

// NewDescriptors returns the book of the process's descriptors. Close ends it.
func NewDescriptors(o Options) *Descriptors {
	d := &Descriptors{o: o}
	if o.Limit == nil {
		d.o.Limit = Limit
	}
	if o.Used == nil {
		if _, ok := countNow(); !ok {
			d.before = countOnce()
		}
		d.o.Used = d.used
	}
	return d
}

func (d *Descriptors) used() int {
	if n, ok := countNow(); ok {
		return n
	}
	return d.before + int(d.o.Connections())
}

// reserve returns how many descriptors are left alone by dialing: for handshakes, clients that wait and the admin API.
func reserve(limit int) int { return min(max(limit/8, 8), 256) }

// Dial asks whether another connection may be dialed to a server that has so many. If so, the caller calls done when its dial is
// over, whether the connection was established or not. A connection that serves nobody needs a descriptor for its client some day,
// which is kept. While a server that has none waits for room, no other gets more.
func (d *Descriptors) Dial(has int) (done func(), ok bool) {
	if d == nil {
		return func() {}, true
	}
	dialing := d.dialing.Add(1)
	limit := d.o.Limit()
	clients := d.o.Clients()
	unserved := max(d.o.Connections()-2*clients, 0) + dialing // each session has two
	if limit < unlimited && d.o.Used()+int(perDial*dialing+unserved)+reserve(limit) > limit || d.isShort(Accepting) || has > 0 && d.isStarving() {
		d.dialing.Add(-1)
		return nil, false
	}
	return sync.OnceFunc(func() { d.dialing.Add(-1) }), true
}

// Denied notes that a connection which is wanted is not dialed to a server that has so many, since Dial has said so.
func (d *Descriptors) Denied(has int) {
	if has == 0 && d.o.Share != nil {
		d.mu.Lock()
		d.starving = time.Now()
		d.mu.Unlock()
		d.o.Share()
	}
	d.note(Dialing, fmt.Sprintf("the others of %d file descriptors are kept for clients", d.o.Limit()))
}

// Failed notes that an attempt failed, if the error says that something is short on this machine, and returns whether it does.
// Where it was a client's, room is made by closing idle connections to servers.
func (d *Descriptors) Failed(what Activity, err error) bool {
	resource := short(err)
	if resource == "" {
		return false
	}
	if d == nil {
		return true
	}
	why := fmt.Sprintf("out of %s: %v", resource, err)
	if resource == descriptors {
		why = fmt.Sprintf("out of file descriptors, of which there are %d: %v", d.o.Limit(), err)
	}
	d.note(what, why)
	if what == Accepting && resource != ports {
		d.shed()
	}
	return true
}

// note notes a failed attempt.
func (d *Descriptors) note(what Activity, why string) {
	d.mu.Lock()
	e := &d.episodes[what]
	e.last = time.Now()
	e.failed++
	begins := e.begun.IsZero()
	if begins {
		e.begun, e.why = e.last, why
		if d.timer == nil && !d.closed {
			d.timer = time.AfterFunc(calm, d.look)
		}
	}
	d.mu.Unlock()
	switch {
	case !begins:
	case what == Accepting:
		d.o.Log.Warn("cannot accept clients, closing idle connections to servers to make room", "reason", why)
	default:
		d.o.Log.Warn("dialing fewer connections than wanted", "reason", why)
	}
}

// shed has idle connections closed.
func (d *Descriptors) shed() {
	d.mu.Lock()
	now := time.Now()
	if now.Sub(d.shedAt) < shedPause {
		d.mu.Unlock()
		return
	}
	d.shedAt = now
	d.mu.Unlock()
	n := d.o.Shed(max(reserve(d.o.Limit())/4, 4))
	d.mu.Lock()
	d.episodes[Accepting].shed += n
	d.mu.Unlock()
}

// look is called from time to time while something is short, and says when it is over.
func (d *Descriptors) look() {
	d.mu.Lock()
	var over [activities]episode
	now, another := time.Now(), false
	for i := range d.episodes {
		switch e := &d.episodes[i]; {
		case e.begun.IsZero():
		case now.Sub(e.last) >= calm:
			over[i], *e = *e, episode{}
		default:
			another = true
		}
	}
	d.timer = nil
	if another && !d.closed {
		d.timer = time.AfterFunc(calm/3, d.look)
	}
	d.mu.Unlock()
	if e := over[Accepting]; !e.begun.IsZero() {
		d.o.Log.Info("clients can be accepted again", "failed_attempts", e.failed, "idle_connections_closed", e.shed,
			"after", e.last.Sub(e.begun).Round(time.Millisecond))
	}
	if e := over[Dialing]; !e.begun.IsZero() {
		d.o.Log.Info("dialing as many connections as wanted again", "attempts_put_off", e.failed, "after", e.last.Sub(e.begun).Round(time.Millisecond))
	}
}

// isStarving tells whether a server without any connection waits for room.
func (d *Descriptors) isStarving() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.starving.IsZero() && time.Since(d.starving) < calm
}

// isShort tells whether an activity fails at present because something is short.
func (d *Descriptors) isShort(what Activity) bool { return d.why(what) != "" }

func (d *Descriptors) why(what Activity) string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.episodes[what].why
}

// Accepting returns nil when clients can be accepted, or why not.
func (d *Descriptors) Accepting() error {
	if why := d.why(Accepting); why != "" {
		return fmt.Errorf("clients cannot be accepted: %s", why)
	}
	return nil
}

// Dialing returns nil when servers can be dialed as far as this machine is concerned, or why not.
func (d *Descriptors) Dialing() error {
	if why := d.why(Dialing); why != "" {
		return fmt.Errorf("fewer connections than wanted are dialed: %s", why)
	}
	return nil
}

// Close ends the book.
func (d *Descriptors) Close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
