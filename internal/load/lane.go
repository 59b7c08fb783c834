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
	counts  counts

	// The schedule: every period each client in turn has a message due, at its own phase.
	running bool
	turn    int   // the client that is next
	round   int64 // when the present period began
	end     int64 // nothing is due from here on

	closing    bool // clients are leaving; none connects again
	draining   bool
	unfinished int // while draining, clients that still wait for something
}

// begin starts the steady part. Client i of the lane has its first message due at its field base.
func (l *lane) begin(end int64) {
	l.end = end
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

// halt ends the steady part, if need be before its time. What was due by now is due, even if the loop comes to it late.
func (l *lane) halt() {
	l.end = min(l.end, l.now())
	for l.running {
		l.tick()
	}
}

// drain has l.stage.drained counted once no client waits for an echo any more.
func (l *lane) drain() {
	l.halt()
	l.draining = true
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
		c.leave()
	}
}
