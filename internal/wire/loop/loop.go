// Package loop runs connections on event loops.
//
// A [Loop] is one goroutine that owns its connections outright: it alone reads and writes them, calls their handlers and
// runs their timers. So data that only one loop uses needs no lock. Other goroutines post functions to a loop. On Linux
// a loop waits for all its connections at once with epoll, and an idle connection costs neither a stack nor a buffer.
// On other systems, and under the build tag portableloop, a driver with the same behaviour runs on goroutines.
//
// A [Group] holds the loops of a process and adapts the number of awake loops to the load.
package loop

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

// MaxHeld is the largest number of bytes that [Handler.Received] may leave unconsumed.
const MaxHeld = 256

// readSize is the most that one read takes from a socket, in bytes. So it is also the most that the proxy keeps for one
// direction when the receiver is slow.
const readSize = 64 << 10

// gatherSize is the most that a connection may have kept when Gather reads once more, and the most that this reads, in bytes. So no more is
// kept than one read.
const gatherSize = readSize / 2

// Handler receives the events of one connection, always on the goroutine of the connection's loop.
type Handler interface {
	// Received is called with the bytes that arrived. The slice belongs to the loop: the handler may change it, but not
	// keep it. Received returns how many bytes it has consumed. The others, at most MaxHeld, are presented again, followed by
	// the bytes that arrive next.
	Received(c *Conn, b []byte) (consumed int)
	// Flushed is called when the socket has taken everything that Write had to keep.
	Flushed(c *Conn)
	// Ended is called once, when the peer has ended its direction of the stream (err is io.EOF) or the connection has
	// failed. Nothing is received after it. The connection stays open for writing until Close is called.
	Ended(c *Conn, err error)
}

// EndingHandler is a [Handler] that learns when the peer ends its direction of the stream while reading is paused, when Ended
// cannot be called yet. The portable driver does not notice that. If the peer resets the connection, Ended is called at once, and
// what is unread is lost; other handlers receive that first, when they resume reading.
type EndingHandler interface {
	Handler
	// Ending is called one or more times.
	Ending(c *Conn)
}

// GatheringHandler is a [Handler] that calls [Conn.Gather].
type GatheringHandler interface {
	Handler
	// Gathered is called when something has been kept while reading was paused.
	Gathered(c *Conn)
}

// TimerHandler is the [Handler] of a connection that owns timers.
type TimerHandler interface {
	Handler
	// Expired is called when one of the connection's timers expires.
	Expired(c *Conn, t *Timer)
}

// Retirer is a [Handler] that can clean up after one of its events has panicked.
type Retirer interface {
	Handler
	// Retire closes the connection and releases everything that belongs to it.
	Retire(c *Conn)
}

// StallHandler is a [Handler] that asks [Conn.Stalled], rather than Pending, whether the socket has taken what was written.
type StallHandler interface {
	Handler
	// Stalled is called when the socket has not taken all of what was queued before. Since another connection's event may be
	// under way, Stalled must do no more than pause reading and set timers.
	Stalled(c *Conn)
}

// Loop is one event loop. Only its own goroutine may call its methods, unless a method says otherwise.
type Loop struct {
	// Static after newLoop.
	id    int
	group *Group
	done  chan struct{} // closed when the goroutine has ended

	// Owned by the loop's goroutine.
	driver  driver
	timers  timerHeap
	later   []func() // to be called after the current event
	running []func() // the posted functions being run; its memory is used again
	conns   int      // how many connections there are
	work    uint64   // how many events were handled
	now     Instant  // when the present turn began
	stopped bool
	current *Conn   // the connection whose event is being handled; nil for none
	handler Handler // current's handler when the event began
	again   []byte  // what a handler is being presented that a connection had kept; nil otherwise: see Conn.Keep

	// Written by the loop's goroutine, read by any.
	load  atomic.Int64     // a copy of conns
	times *meter.Histogram // of turns

	mu        sync.Mutex
	posted    []func()    // guarded by mu
	closed    bool        // guarded by mu: the loop has not started yet, or was stopped; nothing can be posted
	hasPosted atomic.Bool // written with mu held: len(posted) > 0, so that a turn without posted functions takes no lock
}

// turnBounds are the sizes by which turns are counted. No turn should take longer than 200 us, since all of the loop's sessions wait for it.
var turnBounds = []time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
}

// newLoop returns a loop that does not run yet: nothing can be posted to it.
func newLoop(id int, g *Group) *Loop {
	return &Loop{id: id, group: g, closed: true, done: make(chan struct{}), times: meter.NewHistogram(turnBounds...)}
}

// start starts the loop's goroutine, which runs until stop is called. The group calls it once.
func (l *Loop) start(use IOURing) error {
	if err := l.driver.open(l, use); err != nil {
		return err
	}
	l.mu.Lock()
	l.closed = false
	l.mu.Unlock()
	go l.run()
	return nil
}

// Post calls f on the loop's goroutine, after what was posted before, and does not wait for it. Any goroutine may call Post. It
// returns false if the loop has not started yet or has been stopped; f is not called then.
func (l *Loop) Post(f func()) bool { return l.post(f, nil) }

// post is Post. It calls accepted, if not nil, once f is sure to be called, but before f can run.
func (l *Loop) post(f, accepted func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.posted = append(l.posted, f)
	if accepted != nil {
		accepted()
	}
	if len(l.posted) == 1 {
		l.hasPosted.Store(true)
		l.driver.wake() // with mu held: once it is released, the loop may end, and its descriptors may be reused
	}
	return true
}

// Call calls f on the loop's goroutine and waits until f has returned. Any goroutine but a loop's may call it. It
// returns false if the loop does not run; f is not called then.
func (l *Loop) Call(f func()) bool {
	ran := make(chan struct{})
	if !l.Post(func() { defer close(ran); f() }) {
		return false
	}
	<-ran
	return true
}

// Awake returns the loop if its group has it awake, and otherwise one that is. Any goroutine may call it.
func (l *Loop) Awake() *Loop {
	if l.id < int(l.group.awake.Load()) {
		return l
	}
	return l.group.Pick()
}

// ID returns the loop's number within its group, starting at 0. Any goroutine may call it.
func (l *Loop) ID() int { return l.id }

// Later calls f on the loop after the event that is being handled.
func (l *Loop) Later(f func()) { l.later = append(l.later, f) }

// Now returns the instant at which the present turn began: what every read asks for costs nothing.
func (l *Loop) Now() Instant { return l.now }

// run is the loop's goroutine.
func (l *Loop) run() {
	defer close(l.done)
	l.turns()
	for !l.stopped || len(l.running) > 0 { // a handler has panicked
		for !l.resume() { // before all is done, the loop must not wait: the event that announced it may have been taken
		}
		l.turns()
	}
	l.driver.shut()
}

// turns waits for events and handles them, until the loop is stopped or a handler panics.
func (l *Loop) turns() {
	defer l.recovered()
	for !l.stopped {
		l.driver.wait()
		l.now = Now()
		l.work += uint64(l.driver.dispatch())
		l.finish()
		l.times.Observe(time.Duration(Now() - l.now))
	}
}

// finish does what follows the events of a turn.
func (l *Loop) finish() {
	l.driver.sendOutbox()
	l.runLater()
	l.runPosted()
	for l.driver.sendOutbox() { // the functions above may have written, and writing may fail
		l.runLater()
	}
}

func (l *Loop) runLater() {
	for i := 0; i < len(l.later); i++ { // a function may add others
		f := l.later[i]
		if f == nil { // it was called, and has panicked
			continue
		}
		l.later[i], l.current = nil, nil
		f()
	}
	l.later = l.later[:0]
}

func (l *Loop) runPosted() {
	l.runRunning() // what is left after a panic
	if !l.hasPosted.Load() {
		return
	}
	l.mu.Lock()
	l.running, l.posted = l.posted, l.running[:0]
	l.hasPosted.Store(false)
	l.mu.Unlock()
	l.runRunning()
}

func (l *Loop) runRunning() {
	for i := 0; i < len(l.running); i++ { // the function that stop posts adds others
		f := l.running[i]
		if f == nil { // it was called, and has panicked
			continue
		}
		l.running[i], l.current = nil, nil
		f()
		l.runLater()
	}
	l.running = l.running[:0]
}

// stop ends the loop, closes the connections that it still has, and waits for its goroutine to end. The group calls it, on
// another goroutine.
func (l *Loop) stop() {
	l.Post(func() {
		l.stopped = true
		l.mu.Lock()
		l.closed = true
		rest := l.posted
		l.posted = nil
		l.mu.Unlock()
		l.running = append(l.running, rest...) // so that no Call waits for ever
	})
	<-l.done
}

// count adds n to the number of connections.
func (l *Loop) count(n int) {
	l.conns += n
	l.load.Store(int64(l.conns))
}
