package load

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// burst is how many messages a lane sends at most before it lets the loop read again.
const burst = 128

// lane is what one event loop does: its clients, the schedule of their messages, and what it counted. All of it is
// owned by the loop's goroutine.
type lane struct {
	*stage
	loop    *loop.Loop
	pacer   pacer
	buffer  []byte // to make frames in
	clients []*client
	counts  []*counts // by target

	// The schedule: every period each client in turn has a message due, at its own phase.
	steady  bool // the steady part has begun
	running bool
	turn    int   // the client that is next
	round   int64 // when the present period began, after the client's base
	end     int64 // nothing is due from here on

	closing    bool // clients are leaving; none connects again
	draining   bool
	silent     bool // nothing more is sent
	unfinished int  // while draining, clients that still wait for something
}

// begin starts the steady part. Client i of the lane has its first message due at its field base.
func (l *lane) begin(end int64) {
	l.end, l.steady = end, true
	for _, c := range l.clients {
		c.talk.begin()
	}
	if l.period == 0 || len(l.clients) == 0 {
		return
	}
	l.running, l.turn, l.round = true, 0, 0
	l.tick()
}

// tick gives all clients their due messages.
func (l *lane) tick() {
	if !l.running {
		return
	}
	now := l.now()
	for range burst {
		c := l.clients[l.turn]
		due := c.base + l.round
		if due >= l.end {
			l.running = false
			if l.draining {
				l.wind()
			}
			return
		}
		if due > now {
			l.pacer.set(max(time.Duration(due-now), l.restTime))
			return
		}
		if l.turn++; l.turn == len(l.clients) {
			l.turn = 0
			l.round += int64(l.period)
		}
		if !c.broken {
			c.talk.due(due)
		}
	}
	l.pacer.set(0)
}

// drain ends the steady part, if need be before its time, and has stage.drained counted once no client waits for an echo
// any more. What was due by now is sent, even if the lane comes to it late.
func (l *lane) drain() {
	l.end = min(l.end, l.now())
	l.draining = true
	if l.running {
		l.tick()
	} else {
		l.wind()
	}
}

// wind finds out who still waits, when nothing more becomes due.
func (l *lane) wind() {
	for _, c := range l.clients {
		c.talk.halt()
		if !c.broken && !c.talk.finished() {
			c.waiting = true
			l.unfinished++
		}
	}
	if l.unfinished == 0 {
		l.drained.count()
	}
}

// hush has the clients give up what they could not send, so that the rest of the time is left for the echoes of what
// they did send: under too high a load there would always be some on their way.
func (l *lane) hush() {
	l.silent = true
	if l.running {
		l.running = false
		l.skip()
		l.wind()
		return
	}
	for _, c := range l.clients {
		l.settle(c)
	}
}

// skip counts what was due, but never got its turn.
func (l *lane) skip() {
	for _, c := range l.clients[l.turn:] {
		l.skipFrom(c, c.base+l.round)
	}
	for _, c := range l.clients[:l.turn] {
		l.skipFrom(c, c.base+l.round+int64(l.period))
	}
}

func (l *lane) skipFrom(c *client, due int64) {
	if !c.broken && due < l.end && c.talk.inSession() {
		c.counts().Unsent += 1 + (l.end-1-due)/int64(l.period)
	}
}

// settle notes that a client may have nothing to wait for any more.
func (l *lane) settle(c *client) {
	if !c.waiting || !c.broken && !c.talk.finished() {
		return
	}
	c.waiting = false
	if l.unfinished--; l.unfinished == 0 {
		l.drained.count()
	}
}

// close ends all clients' connections in order, after counting what they never got.
func (l *lane) close() {
	l.closing = true
	for _, c := range l.clients {
		if !c.broken {
			c.talk.account()
		}
		c.resolve(cut)
		c.leave()
	}
}
