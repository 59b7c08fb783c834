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
	// unlimited is a limit that is never reached.
	unlimited = math.MaxInt32
	// usual is roughly how many descriptors an idle process has open, for systems where they cannot be counted.
	usual = 32
	// perDial is how many descriptors a dial takes for a moment: the socket and its duplicate.
	perDial = 2
	// calm is how long nothing may fail before a shortage counts as ended. Each failed operation is tried again at least once a second.
	calm = 3 * time.Second
	// shedPause is the least time between two rounds of closing idle connections, because it takes a moment until they are closed.
	shedPause = 50 * time.Millisecond
)

// Options are the settings of Descriptors. All fields are required, unless they have a default.
type Options struct {
	// Limit returns how many descriptors the process may have; default [Limit].
	Limit func() int
	// Used returns how many descriptors are in use. By default the system is asked, or they are counted.
	Used func() int
	// Connections returns how many connections there are, of clients and to servers.
	Connections func() int64
	// Clients returns how many of them are connections of clients.
	Clients func() int64
	// Shed closes about n idle connections to servers to make room for clients, and returns how many it has closed. It must not
	// block.
	Shed func(n int) int
	// Share closes an idle connection to the server that has the most connections, if it has more than one, to make room for a
	// server that has none. It must not block. By default nothing is closed.
	Share func()
	// Log gets a line when a shortage begins, and one when it ends.
	Log *slog.Logger
}

// Descriptors shares out the descriptors of the process: servers are dialed only while enough descriptors are left for the clients
// of these connections and for the admin API. It also counts what fails because something is short on this machine. Any goroutine
// may call its methods. With a nil pointer there are no limits, and nothing is counted.
type Descriptors struct {
	o       Options      // static
	before  int          // static: descriptors in use at the start, where the system cannot tell how many are in use now
	dialing atomic.Int64 // dials under way

	mu       sync.Mutex
	episodes [activities]episode // guarded by mu
	shedAt   time.Time           // guarded by mu: when idle connections were closed last
	starving time.Time           // guarded by mu: when a server without connections was last refused one
	timer    *time.Timer         // guarded by mu: calls checkEnded; nil while nothing is short
	closed   bool                // guarded by mu
}

// Activity is what fails when something is short.
type Activity uint8

// The activities.
const (
	// Accepting is accepting clients, which is the most urgent.
	Accepting Activity = iota
	// Dialing is dialing servers.
	Dialing
	activities = int(Dialing) + 1
)

// episode is a time in which something was short for an activity. The zero value is none.
type episode struct {
	begun, last time.Time // the first and the last failure
	failed      uint64    // attempts that failed
	shed        int       // idle connections closed
	why         string
}

// NewDescriptors returns the Descriptors of the process. Close ends them.
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

// Limit returns how many descriptors the process may have. Any goroutine may call it, also with a nil pointer.
func (d *Descriptors) Limit() int {
	if d == nil {
		return unlimited
	}
	return d.o.Limit()
}

// reserve returns how many descriptors dials must leave for handshakes, waiting clients and the admin API.
func reserve(limit int) int { return min(max(limit/8, 8), 256) }

// Dial asks for permission to dial another connection to a server that already has some. With permission, the caller dials, and calls
// done when the dial has ended, successfully or not. Dial keeps a descriptor for the future client of each connection that has none
// yet. While a server without connections waits for room, no other server gets permission.
func (d *Descriptors) Dial(has int) (done func(), ok bool) {
	if d == nil {
		return func() {}, true
	}
	dialing := d.dialing.Add(1)
	limit := d.o.Limit()
	clients := d.o.Clients()
	unserved := max(d.o.Connections()-2*clients, 0) + dialing // connections without a client; each session has two connections
	if limit < unlimited && d.o.Used()+int(perDial*dialing+unserved)+reserve(limit) > limit || d.isShort(Accepting) || has > 0 && d.isStarving() {
		d.dialing.Add(-1)
		return nil, false
	}
	return sync.OnceFunc(func() { d.dialing.Add(-1) }), true
}

// Denied notes that Dial has refused permission for a connection that is wanted, to a server that has this many already.
func (d *Descriptors) Denied(has int) {
	if has == 0 && d.o.Share != nil {
		d.mu.Lock()
		d.starving = time.Now()
		d.mu.Unlock()
		d.o.Share()
	}
	d.note(Dialing, fmt.Sprintf("the remaining ones of %d file descriptors are reserved for clients", d.o.Limit()))
}

// Failed notes that an attempt has failed, if the error says that something is short on this machine, and returns whether it says
// so. If a client could not be accepted, Failed makes room by closing idle connections to servers.
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
		why = fmt.Sprintf("out of file descriptors (the limit is %d): %v", d.o.Limit(), err)
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
			d.timer = time.AfterFunc(calm, d.checkEnded)
		}
	}
	d.mu.Unlock()
	switch {
	case !begins:
	case what == Accepting:
		d.o.Log.Warn("cannot accept clients: closing idle connections to servers to make room", "reason", why)
	default:
		d.o.Log.Warn("dialing fewer connections than wanted", "reason", why)
	}
}

// shed closes idle connections, if it has not just done so.
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

// checkEnded logs which shortages have ended. The timer calls it while something is short.
func (d *Descriptors) checkEnded() {
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
		d.timer = time.AfterFunc(calm/3, d.checkEnded)
	}
	d.mu.Unlock()
	if e := over[Accepting]; !e.begun.IsZero() {
		d.o.Log.Info("clients can be accepted again", "failed_attempts", e.failed, "idle_connections_closed", e.shed,
			"after", e.last.Sub(e.begun).Round(time.Millisecond))
	}
	if e := over[Dialing]; !e.begun.IsZero() {
		d.o.Log.Info("dialing as many connections as wanted again", "attempts_postponed", e.failed, "after", e.last.Sub(e.begun).Round(time.Millisecond))
	}
}

// isStarving reports whether a server without connections waits for room.
func (d *Descriptors) isStarving() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.starving.IsZero() && time.Since(d.starving) < calm
}

// isShort reports whether something is short for an activity at present.
func (d *Descriptors) isShort(what Activity) bool { return d.why(what) != "" }

// why returns why an activity fails at present; empty if it does not.
func (d *Descriptors) why(what Activity) string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.episodes[what].why
}

// Accepting returns nil if clients can be accepted, otherwise an error that says why not.
func (d *Descriptors) Accepting() error {
	if why := d.why(Accepting); why != "" {
		return fmt.Errorf("clients cannot be accepted: %s", why)
	}
	return nil
}

// Dialing returns nil if nothing on this machine prevents dialing servers, otherwise an error that says what does.
func (d *Descriptors) Dialing() error {
	if why := d.why(Dialing); why != "" {
		return fmt.Errorf("fewer connections than wanted are dialed: %s", why)
	}
	return nil
}

// Close stops the timer. Nothing more is logged about the end of a shortage.
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
