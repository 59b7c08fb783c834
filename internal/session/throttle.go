package session

import (
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file limits how many messages and bytes a second clients send, by not reading them: TCP's flow control slows them down, and nothing
// is lost. What backends send is not limited.
//
// A client of a session with a rate has its turn: it may send what the rate allows in some 20 ms. Then the session pays for what it has
// sent, from the bucket of each of its scopes. If one of them is overdrawn, the client is not read until that has recovered, while others
// who pay from the same bucket wait for their own turn. So all who share a bucket get the same part of it.
//
// Sessions without a rate have another handler, and pay nothing for this. A session with one compares two counters for each read, and
// looks at the clock once in a turn.

// throttle is how far a session's client has used its turn. It is owned by the session's loop.
type throttle struct {
	rated                   bool   // a rate applied when the turn began, so that the session pays for it
	paidMessages, paidBytes uint64 // of the scanner's counts; what was sent without a rate is free
	messages, bytes         uint64 // the scanner's counts at which the turn ends
	timer                   loop.Timer
	since                   loop.Instant // since when the client is held back; 0 while it is not
	cause                   limits.Cause // by what
}

const (
	// minPause is the shortest time for which a client is not read. A bucket that is overdrawn by less recovers on the way.
	minPause = 5 * time.Millisecond
	// minPiece is the least that is looked at before the counters are compared, in bytes. It bounds by how much a turn is exceeded; and it
	// is more than an incomplete frame that is presented again.
	minPiece = 2 * loop.MaxHeld
	// smallestFrame is the size of the smallest frame from a client in bytes (RFC 6455, section 5.2).
	smallestFrame = 6
)

// Received implements [loop.Handler] for a client whose rate is limited. It hands the bytes on in pieces that do not exceed its turn by
// much, and keeps the rest while the client is not read.
func (l *limited) Received(c *loop.Conn, b []byte) int {
	pos, piece := 0, l.room()
	for {
		end := min(pos+piece, len(b))
		n := l.clientSide.Received(c, b[pos:end]) - c.Kept()
		pos += n
		if c.Closed() {
			return len(b)
		}
		if l.life.state == relaying && l.turnIsOver() {
			l.pay()
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
			piece = l.room()
		}
	}
}

// room returns how many bytes may be looked at before the turn can be over.
func (l *limited) room() int {
	if l.life.state != relaying {
		return math.MaxInt32
	}
	t := &l.throttle
	left := func(end, count uint64) uint64 { return min(max(end, count)-count, math.MaxInt32) }
	return int(max(min(left(t.bytes, l.scanner.Bytes), smallestFrame*left(t.messages, l.scanner.Messages), math.MaxInt32), minPiece))
}

func (l *limited) turnIsOver() bool {
	return l.scanner.Bytes >= l.throttle.bytes || l.scanner.Messages >= l.throttle.messages
}

// startTurn begins a turn.
func (l *limited) startTurn() {
	l.throttle.rated = l.hold.Rated()
	messages, bytes := l.hold.Turn()
	l.throttle.messages, l.throttle.bytes = l.scanner.Messages+messages, l.scanner.Bytes+bytes
}

// spend pays for what the client has sent since it paid last, and begins a turn.
func (l *limited) spend() (wait time.Duration, cause limits.Cause) {
	t := &l.throttle
	if t.rated {
		wait, cause = l.hold.Spend(route.Now(), l.scanner.Messages-t.paidMessages, l.scanner.Bytes-t.paidBytes)
	}
	t.paidMessages, t.paidBytes = l.scanner.Messages, l.scanner.Bytes
	l.startTurn()
	return wait, cause
}

// pay ends a turn: unless the buckets have enough, the client is not read for a while.
func (l *limited) pay() {
	wait, cause := l.spend()
	switch {
	case wait == 0:
		l.goOn()
	case wait >= minPause:
		t := &l.throttle
		if t.since == 0 {
			t.since = loop.Now()
			l.server.throttled.Add(1)
			l.server.limitLog.Note(cause, l.record.Service.Name)
		}
		t.cause = cause
		l.client.Throttle()
		if wait >= l.record.Service.CloseTimeout { // otherwise its close frame has its turn soon
			l.client.Gather()
			l.client.ReportKept()
		}
		t.timer.Set(l.client, wait, nextTurn)
	}
}

// goOn notes that the client is not held back any more.
func (l *limited) goOn() {
	if l.throttle.since != 0 {
		l.throttle.since = 0
		l.server.throttled.Add(-1)
	}
}

// stop ends the pause, if there is one. The client is read again unless something else is in the way.
func (l *limited) stop() {
	l.throttle.timer.Stop()
	l.goOn()
	if !l.client.Closed() {
		l.client.Unthrottle()
	}
}
