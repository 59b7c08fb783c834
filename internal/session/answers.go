package session

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// boundedAnswers is the transport of a client's TLS connection while the client waits in the queue. Package crypto/tls answers a request for
// new keys whenever it reads one. A client that asks for them without end, and takes no answers, would otherwise keep its goroutine,
// and the connection to a server that was leased for it. nil does nothing. Any goroutine may use it.
type boundedAnswers struct {
	net.Conn              // static
	line     *secure.Line // static: whose transport it is

	mu    sync.Mutex
	until time.Time // guarded by mu: when all answers must have been taken; zero while the client waits
	err   error     // guarded by mu: why an answer was not taken
}

// boundAnswers becomes the transport of nc; it returns nil without TLS. Nobody may use nc meanwhile.
func boundAnswers(nc net.Conn) *boundedAnswers {
	conn, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	line := conn.NetConn().(*secure.Line)
	a := &boundedAnswers{Conn: line.Conn, line: line}
	line.Conn = a
	return a
}

// Read implements [net.Conn]. crypto/tls hides that an answer was not taken, and would read on.
func (a *boundedAnswers) Read(b []byte) (int, error) {
	a.mu.Lock()
	err := a.err
	a.mu.Unlock()
	if err != nil {
		return 0, net.ErrClosed
	}
	return a.Conn.Read(b)
}

// Write implements [net.Conn]. A client has tellTimeout to accept an answer, and gets no further one if it does not.
func (a *boundedAnswers) Write(b []byte) (int, error) {
	a.mu.Lock()
	until := a.until
	if until.IsZero() {
		until = time.Now().Add(tellTimeout)
	}
	err := a.err
	if err == nil {
		err = a.Conn.SetWriteDeadline(until)
	}
	a.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := a.Conn.Write(b)
	if err != nil {
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
	}
	return n, err
}

// failed reports whether the client has not taken an answer.
func (a *boundedAnswers) failed() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err != nil
}

// end sets the time for all further answers together, however many the client still asks for.
func (a *boundedAnswers) end() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Now().Add(tellTimeout)
	_ = a.Conn.SetWriteDeadline(a.until)
}

// restore gives the TLS connection its own transport back. Nobody may use it meanwhile.
func (a *boundedAnswers) restore() {
	if a == nil {
		return
	}
	a.line.Conn = a.Conn
	_ = a.Conn.SetWriteDeadline(time.Time{})
}
