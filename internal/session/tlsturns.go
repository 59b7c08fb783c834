package session

import (
	"crypto/tls"
	"net"

	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// tlsTurns are the turns of TLS handshakes: one element for each that computes. A full handshake takes up to some milliseconds of a
// processor, so that a flood of them would take all processors from the running sessions. Those that wait for a turn wait in order.
// Waiting for the client takes no turn.
type tlsTurns chan struct{}

// newTLSTurns returns the turns for a process that may use so many processors: half of them are left to the sessions.
func newTLSTurns() tlsTurns { return make(tlsTurns, max(1, loop.Processors()/2)) }

// handshake carries out the server's side of a TLS handshake over nc, which began with early. The connection's deadline bounds it.
func (t tlsTurns) handshake(nc net.Conn, early []byte, config *tls.Config, o *opening) (*tls.Conn, error) {
	turn := &tlsTurn{Conn: nc, turns: t, opening: o}
	if len(early) > 0 {
		turn.take()
	}
	defer turn.pass()
	conn := secure.Server(turn, config, early)
	err := conn.Handshake()
	conn.NetConn().(*secure.Line).Conn = nc // nothing reads or writes it now
	o.work(false)                           // the client's request comes next
	return conn, err
}

// tlsTurn is the connection of a client during its TLS handshake. It has a turn between two calls of Read or Write, each of which may have to
// wait for the client. The goroutine of the handshake owns it.
type tlsTurn struct {
	net.Conn
	turns   tlsTurns
	opening *opening
	has     bool
}

// Read implements [net.Conn].
func (t *tlsTurn) Read(b []byte) (int, error) { return t.exchange(t.Conn.Read, b) }

// Write implements [net.Conn].
func (t *tlsTurn) Write(b []byte) (int, error) { return t.exchange(t.Conn.Write, b) }

func (t *tlsTurn) exchange(call func([]byte) (int, error), b []byte) (int, error) {
	t.pass()
	t.opening.work(false)
	n, err := call(b)
	if err == nil && !t.opening.work(true) {
		err = net.ErrClosed
	}
	if err == nil {
		t.take()
	}
	return n, err
}

func (t *tlsTurn) take() {
	t.turns <- struct{}{}
	t.has = true
}

func (t *tlsTurn) pass() {
	if t.has {
		t.has = false
		<-t.turns
	}
}
