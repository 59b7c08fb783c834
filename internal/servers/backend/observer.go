package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Observer is a [loop.Filter] in front of the handler of a connection's stream while an operator watches a session. A session puts it there at
// the beginning of a lease or later, and the connection takes it away when its fate is known. All calls come on the connection's loop.
type Observer interface {
	loop.Handler
	// TakenBack tells that the lease ends. From now on the observer stands in front of c.
	TakenBack(c *Conn)
	// Sent tells that the proxy itself sends the server a frame. The payload is valid during the call.
	Sent(op frame.Opcode, payload []byte)
	// Fate tells what becomes of the connection, and why or, if it is being reset, what must come. Returned and Discarded are the last.
	Fate(o Outcome, why string)
}

// observer returns the observer in front of the stream's handler; nil for none.
func (c *Conn) observer() Observer {
	o, _ := loop.As[Observer](c.stream.Handler())
	return o
}

// tellFate tells an observer, if there is one, what becomes of the connection.
func (c *Conn) tellFate(outcome Outcome, why string) {
	o := c.observer()
	if o == nil {
		return
	}
	o.Fate(outcome, why)
	if outcome == Returned || outcome == Discarded {
		c.stream.SetHandler(c)
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
