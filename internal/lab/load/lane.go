package load

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// burst is how many messages a lane sends at most before it lets the loop read again.
const burst = 128

// lane is the work of one event loop: its clients, the schedule of their messages, and its counts. The loop's goroutine owns
// all of it.
type lane struct {
	*stage
	loop    *loop.Loop
	pacer   pacer
	buffer  []byte // memory for frames to send
	clients []*client
	counts  []*counts // by target

	// The schedule: in each period, each client in turn has a message due, always at the same time within the period.
	steady  bool // the steady part has begun
	running bool
	turn    int   // the next client
	round   int64 // when the current period began, relative to a client's base
	end     int64 // nothing is due from here on

	closing    bool // clients are leaving; none connects again
	draining   bool
	sendsEnded bool // clients send no more messages
	unfinished int  // while draining: clients that still wait for something
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

// tick tells clients about their due messages.
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
				l.haltClients()
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

// drain ends the steady part, early if need be. Once no client waits for an echo, the lane counts itself in
// stage.drained. Clients still send what was due by now, even if the lane is late.
func (l *lane) drain() {
	l.end = min(l.end, l.now())
	l.draining = true
	if l.running {
		l.tick()
	} else {
		l.haltClients()
	}
}

// haltClients halts all clients and counts those that still wait for something. The lane calls it when no more messages
// become due.
func (l *lane) haltClients() {
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

// endSends makes the clients give up what they could not send, so that the rest of the time is left for the echoes of what
// they did send. If the load is too high, some messages would be on their way until the end.
func (l *lane) endSends() {
	l.sendsEnded = true
	if l.running {
		l.running = false
		l.skip()
		l.haltClients()
		return
	}
	for _, c := range l.clients {
		l.settle(c)
	}
}

// skip counts the messages that were due, but whose turn never came.
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

// settle checks whether a client has nothing left to wait for, and counts the lane as drained after the last client.
func (l *lane) settle(c *client) {
	if !c.waiting || !c.broken && !c.talk.finished() {
		return
	}
	c.waiting = false
	if l.unfinished--; l.unfinished == 0 {
		l.drained.count()
	}
}

// close counts the answers that the clients never got, and ends their connections in order.
func (l *lane) close() {
	l.closing = true
	for _, c := range l.clients {
		if !c.broken {
			c.talk.account()
		}
		c.setOutcome(cut)
		c.leave()
	}
}
