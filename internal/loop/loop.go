// Package loop runs connections on event loops.
//
// A [Loop] is one goroutine that owns its connections outright: it alone reads and writes them, calls their handlers and
// runs their timers, so whatever is reached only from one loop needs no lock. Everybody else reaches a loop by posting a
// function to it. On Linux the loop waits for all its connections at once with epoll, and an idle connection costs
// neither a stack nor a buffer; elsewhere (or under the build tag portableloop) a driver with the same behaviour runs
// on goroutines.
//
// A [Group] holds the loops of a process and lets the number of those awake follow the load.
package loop

import (
	"sync"
	"sync/atomic"
)

// MaxHeld is the largest number of bytes that [Handler.Received] may leave unconsumed.
const MaxHeld = 256

// readSize is the most that one read takes from a socket, in bytes, and so the most that one slow receiver makes the
// proxy keep for a direction.
const readSize = 64 << 10

// Handler receives the events of one connection, always on the goroutine of the connection's loop.
type Handler interface {
	// Received is called with the bytes that arrived. The slice belongs to the loop: the handler may change it, but not
	// keep it. It returns how many bytes it has consumed; the others, at most MaxHeld, are presented again in front of
	// the bytes that follow them.
	Received(c *Conn, b []byte) (consumed int)
	// Flushed is called when everything has been written that a call of Write had to keep.
	Flushed(c *Conn)
	// Ended is called once when the peer has ended its direction of the stream (err is io.EOF) or the connection
	// failed. Nothing is received after it. The connection stays open for writing until Close is called.
	Ended(c *Conn, err error)
}

// EndingHandler is a [Handler] that wants to know when a peer ends its direction of the stream while reading is paused, so that
// Ended cannot be called yet. The portable driver does not notice that.
type EndingHandler interface {
	Handler
	// Ending is called once or more often.
	Ending(c *Conn)
}

// TimerHandler is the [Handler] of a connection that owns timers.
type TimerHandler interface {
	Handler
	// Expired is called when one of the connection's timers expires.
	Expired(c *Conn, t *Timer)
}

// Retirer is a [Handler] that can give up what belongs to its connection after a panic in the midst of one of its events.
type Retirer interface {
	Handler
	// Retire closes the connection, and all that belongs to it.
	Retire(c *Conn)
}

// StallHandler is a [Handler] that asks Stalled, and not Pending, whether the socket has taken what was written.
type StallHandler interface {
	Handler
	// Stalled is called when the socket turns out not to have taken all of what was written earlier. That may be in the middle of
	// another connection's event: it must do no more than pause reading.
	Stalled(c *Conn)
}

// Loop is one event loop. Its methods may be called from its own goroutine only, except where they say otherwise.
type Loop struct {
	// Static after newLoop.
	id    int
	group *Group

	// Owned by the loop's goroutine.
	driver  driver
	timers  timerHeap
	later   []func() // to run after the current event
	running []func() // the batch of posted functions being run, kept for its memory
	conns   int
	work    uint64 // events handled
	stopped bool
	current *Conn   // whose event is being handled; nil for nobody's
	handler Handler // current's when the event began

	// load is conns, published for Group.Pick.
	load atomic.Int64

	mu        sync.Mutex
	posted    []func()    // guarded by mu
	closed    bool        // guarded by mu: nothing posted is run, yet or any more
	hasPosted atomic.Bool // len(posted) > 0, so that a round without any takes no lock
	done      chan struct{}
}

// newLoop returns a loop that does not run yet: nothing can be posted to it.
func newLoop(id int, g *Group) *Loop {
	return &Loop{id: id, group: g, closed: true, done: make(chan struct{})}
}

// start has the loop run. It is called once, by the group.
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

// Post has f called on the loop's goroutine, after what was posted before. Any goroutine may call it. It returns false
// when the loop does not run, not yet or not any more; f is not called then.
func (l *Loop) Post(f func()) bool { return l.post(f, nil) }

// post is Post, and calls sealed, if not nil, when f is certain to be called but has not been yet.
func (l *Loop) post(f, sealed func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.posted = append(l.posted, f)
	if sealed != nil {
		sealed()
	}
	if len(l.posted) == 1 {
		l.hasPosted.Store(true)
		l.driver.wake() // before mu is released, after which the loop may end and its descriptors be others'
	}
	return true
}

// Call has f called on the loop's goroutine and waits until it has returned. Any goroutine but a loop's may call it. It
// returns false when the loop has been stopped.
func (l *Loop) Call(f func()) bool {
	ran := make(chan struct{})
	if !l.Post(func() { defer close(ran); f() }) {
		return false
	}
	<-ran
	return true
}

// ID returns the loop's number within its group, from 0. Any goroutine may call it.
func (l *Loop) ID() int { return l.id }

// Later has f called on the loop after the event that is being handled, for work that must not be done in the middle
// of it.
func (l *Loop) Later(f func()) { l.later = append(l.later, f) }

// run is the loop.
func (l *Loop) run() {
	defer close(l.done)
	l.turns()
	for !l.stopped || len(l.running) > 0 { // after a panic
		l.resume()
		l.turns()
	}
	l.driver.shut()
}

// turns waits and handles events until the loop is stopped, or until a handler panics.
func (l *Loop) turns() {
	defer l.recovered()
	for !l.stopped {
		l.driver.wait()
		l.work += uint64(l.driver.dispatch())
		l.driver.sendOutbox()
		l.runLater()
		l.runPosted()
		for l.driver.sendOutbox() { // the functions above may have written, and writing may fail
			l.runLater()
		}
	}
}

func (l *Loop) runLater() {
	for i := 0; i < len(l.later); i++ { // a function may add others
		f := l.later[i]
		if f == nil { // it has panicked
			continue
		}
		l.later[i], l.current = nil, nil
		f()
	}
	l.later = l.later[:0]
}

func (l *Loop) runPosted() {
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
	for i := 0; i < len(l.running); i++ { // stop may add others
		f := l.running[i]
		if f == nil { // it has panicked
			continue
		}
		l.running[i], l.current = nil, nil
		f()
		l.runLater()
	}
	l.running = l.running[:0]
}

// stop ends the loop and closes what connections it still has. It is called by the group, from outside the loop.
func (l *Loop) stop() {
	l.Post(func() {
		l.stopped = true
		l.mu.Lock()
		l.closed = true
		rest := l.posted
		l.posted = nil
		l.mu.Unlock()
		l.running = append(l.running, rest...) // Call must not wait for ever
	})
	<-l.done
}

// count keeps the number of connections.
func (l *Loop) count(n int) {
	l.conns += n
	l.load.Store(int64(l.conns))
}
