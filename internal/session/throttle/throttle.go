// Package throttle limits how many messages and bytes a second the client of a session sends, by not reading it: TCP's flow control slows the
// client down, and nothing is lost. What backends send is not limited.
//
// A client with a rate has its turn: it may send what the rate allows in some 20 ms. Then its session pays for what it has sent, from the
// bucket of each of its scopes (package limits). If one of them is overdrawn, the client is not read until that has recovered, while others
// who pay from the same bucket wait for their own turn. So all who share a bucket get the same part of it. A client that comes while a bucket is
// overdrawn pays for its first message before it sends that: more connections give no more turns.
//
// A [Filter] compares two counters for each read, and looks at the clock once in a turn.
package throttle

import (
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// minPause is the shortest time for which a client is not read. A bucket that is overdrawn by less recovers on the way.
	minPause = 5 * time.Millisecond
	// MinPiece is the least that is looked at before the counters are compared, in bytes: the longest header. It bounds by how much a turn is
	// exceeded.
	MinPiece = frame.MaxHeaderSize
	// maxPiece is what pieces that end no message grow to: a client that sends many tiny ones must not have the counters compared for each.
	maxPiece = 512
	// settled is how long a client must be read without a pause until it counts as released, also if it sends nothing.
	settled = time.Second
)

// Session is what a filter asks and tells the session whose client it limits.
type Session interface {
	// Relaying reports whether what the client sends is passed on. Otherwise it needs no turn.
	Relaying() bool
	// HeldBack tells that a limit keeps the client from being read.
	HeldBack(by limits.Cause)
	// Released tells that it no longer does.
	Released()
}

// Filter limits one client. It stands in front of the handler of the client's connection. It is owned by the loop of that. Of a nil Filter,
// the methods that a session calls do nothing.
type Filter struct {
	loop.Filter // not set before the first call of Before

	// Static.
	session Session
	hold    *limits.Hold
	counts  *frame.Scanner // what the client has sent
	closing time.Duration  // a client that is held back for longer may close meanwhile

	begun                   bool         // the client has sent something
	rated                   bool         // a rate applied when the turn began, so that the session pays for it
	paidMessages, paidBytes uint64       // of counts; what was sent without a rate is free
	messages, bytes         uint64       // the counts at which the turn ends
	timer                   loop.Timer   // ends the pause, and then the time until the client counts as released
	since                   loop.Instant // since when the client is held back; 0 while it is not, and the timer is not set
	cause                   limits.Cause // by what
}

// Init begins the client's first turn. The session pays from hold for what counts counts from now on. closing is how long a closing handshake may
// take.
func (f *Filter) Init(s Session, hold *limits.Hold, counts *frame.Scanner, closing time.Duration) {
	f.session, f.hold, f.counts, f.closing = s, hold, counts, closing
	f.paidMessages, f.paidBytes = counts.Messages, counts.Bytes
	f.startTurn()
}

// Before returns the filter in front of the next handler while a rate applies, and otherwise the next handler.
func (f *Filter) Before(next loop.Handler) loop.Handler {
	if f == nil || !f.rated && f.since == 0 {
		return next
	}
	f.Handler = next
	return f
}

// Received implements [loop.Handler]. It hands the bytes on in pieces that do not exceed the client's turn by much, and keeps the rest while the
// client is not read.
func (f *Filter) Received(c *loop.Conn, b []byte) int {
	if !f.begun {
		if f.begun = true; f.isTooEarly(c) {
			c.Keep(b)
			return len(b)
		}
	}
	pos, piece := 0, f.room()
	for {
		end := min(pos+piece, len(b))
		n := f.Filter.Received(c, b[pos:end]) - c.Kept()
		pos += n
		if c.Closed() {
			return len(b)
		}
		grown := min(2*piece, maxPiece)
		if f.turnIsOver() && f.session.Relaying() {
			f.pay(c)
			grown = 0
		}
		switch {
		case c.Paused() && (end < len(b) || c.Kept() > 0):
			c.Keep(b[pos:])
			return len(b)
		case end == len(b):
			return pos
		case n == 0:
			piece *= 2
		default:
			piece = max(f.room(), grown)
		}
	}
}

// isTooEarly holds a client back whose first bytes have come while a bucket is overdrawn. It pays for its first message now, so that it has its turn
// among the others.
func (f *Filter) isTooEarly(c *loop.Conn) bool {
	if !f.rated || !f.session.Relaying() {
		return false
	}
	now := limits.Instant(loop.Now())
	if wait, _ := f.hold.Spend(now, 0, 0); wait < minPause {
		return false
	}
	wait, cause := f.hold.Spend(now, 1, 0)
	f.paidMessages++
	f.holdBack(c, wait, cause)
	return true
}

// room returns how many bytes may be looked at before the turn can be over.
func (f *Filter) room() int {
	if !f.session.Relaying() {
		return math.MaxInt32
	}
	left := func(end, count uint64) uint64 { return min(max(end, count)-count, math.MaxInt32) }
	bytes := min(left(f.bytes, f.counts.Bytes), uint64(f.counts.Remaining())+frame.MinClientSize*left(f.messages, f.counts.Messages), math.MaxInt32)
	return int(max(bytes, MinPiece))
}

func (f *Filter) turnIsOver() bool {
	return f.counts.Bytes >= f.bytes || f.counts.Messages >= f.messages
}

func (f *Filter) startTurn() {
	f.rated = f.hold.Rated()
	messages, bytes := f.hold.Turn()
	f.messages, f.bytes = f.counts.Messages+messages, f.counts.Bytes+bytes
}

// Restart begins a turn immediately, by limits that have changed. [Filter.Spend] was called before they did.
func (f *Filter) Restart(c *loop.Conn) {
	if f != nil {
		f.Stop(c)
		f.startTurn()
	}
}

// Spend pays for what the client has sent since it paid last, and begins a turn.
func (f *Filter) Spend() (wait time.Duration, cause limits.Cause) {
	if f == nil {
		return 0, limits.Cause{}
	}
	if f.rated {
		wait, cause = f.hold.Spend(limits.Instant(loop.Now()), max(f.counts.Messages, f.paidMessages)-f.paidMessages, f.counts.Bytes-f.paidBytes)
	}
	f.paidMessages, f.paidBytes = max(f.counts.Messages, f.paidMessages), f.counts.Bytes
	f.startTurn()
	return wait, cause
}

// pay ends a turn: unless the buckets have enough, the client is not read for a while.
func (f *Filter) pay(c *loop.Conn) {
	wait, cause := f.Spend()
	switch {
	case wait == 0:
		f.release()
	case wait >= minPause:
		f.holdBack(c, wait, cause)
	}
}

// holdBack does not have the client read for a while.
func (f *Filter) holdBack(c *loop.Conn, wait time.Duration, cause limits.Cause) {
	f.cause = cause
	if f.since == 0 {
		f.since = loop.Now()
		f.session.HeldBack(cause)
	}
	c.Throttle()
	if wait >= f.closing { // otherwise its close frame has its turn soon
		c.Gather()
		c.ReportKept()
	}
	f.timer.Set(c, wait, 0)
}

// release notes that the client is no longer held back.
func (f *Filter) release() {
	f.timer.Stop()
	if f.since != 0 {
		f.since = 0
		f.session.Released()
	}
}

// Expired implements [loop.TimerHandler]: the client is read again. If it still sends too much, it is held back once more before settled has passed.
func (f *Filter) Expired(c *loop.Conn, t *loop.Timer) {
	switch next, ok := loop.As[loop.TimerHandler](f.Handler); {
	case t == &f.timer && c.Throttled():
		f.timer.Set(c, settled, 0)
		c.Unthrottle()
	case t == &f.timer:
		f.release()
	case ok:
		next.Expired(c, t)
	}
}

// Stop ends the pause, if there is one. The client is read again unless something else is in the way.
func (f *Filter) Stop(c *loop.Conn) {
	if f == nil {
		return
	}
	f.release()
	if !c.Closed() {
		c.Unthrottle()
	}
}

// HeldBack returns which limit keeps the client from being read, and since when; 0 if none does.
func (f *Filter) HeldBack() (by limits.Cause, since loop.Instant) {
	if f == nil {
		return limits.Cause{}, 0
	}
	return f.cause, f.since
}

// TakeTimer takes the timer off its loop before the client's connection moves to another, see [loop.Timer].
func (f *Filter) TakeTimer() {
	if f != nil {
		f.timer.Take()
	}
}

// PutTimer sets the timer on the loop where the connection has arrived.
func (f *Filter) PutTimer() {
	if f != nil {
		f.timer.Put()
	}
}
