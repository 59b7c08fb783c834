package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Observer is the handler of a connection's stream while somebody watches a session: it passes each event on to the handler that it
// observes. A session sets it at the beginning of a lease or later, and it stays until the connection's fate is known. All calls come
// on the connection's loop.
type Observer interface {
	loop.Handler
	// Observed returns the handler that it passes events on to.
	Observed() loop.Handler
	// TakenBack tells that the lease ends. From now on the observer passes events on to c.
	TakenBack(c *Conn)
	// Sent tells that the proxy itself sends the server a frame. The payload is valid during the call.
	Sent(op frame.Opcode, payload []byte)
	// Fate tells what becomes of the connection, and why or, if it is being reset, what must come. After Returned or Discarded, the observer makes the handler that it observes the
	// stream's again.
	Fate(o Outcome, why string)
}

// observer returns the handler of the stream if it is an observer; nil if nobody watches.
func (c *Conn) observer() Observer {
	o, _ := c.stream.Handler().(Observer)
	return o
}

// tellFate tells an observer, if there is one, what becomes of the connection.
func (c *Conn) tellFate(outcome Outcome, why string) {
	if o := c.observer(); o != nil {
		o.Fate(outcome, why)
	}
}

// explain says why a connection is discarded: the reason that is counted and, if it says more, an explanation.
func explain(reason pool.Reason, explanation string) string {
	if explanation == "" || explanation == reason.String() {
		return reason.String()
	}
	return reason.String() + ": " + explanation
}

// tellSent tells an observer, if there is one, that the proxy itself sends a frame.
func (c *Conn) tellSent(op frame.Opcode, payload []byte) {
	if o := c.observer(); o != nil {
		o.Sent(op, payload)
	}
}
