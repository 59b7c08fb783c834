package admission

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// arrival is a client on its way to a session. The goroutine of its handshake owns it.
type arrival struct {
	record.Client
	opening *opening // its unfinished handshake
	// certificate is what the client has presented and the listener verified, over TLS; nil for none.
	certificate *x509.Certificate
	via         *Forwarded // another proxy has forwarded the client; nil for none
	told        *telling   // the client was accepted while it waits; nil if it was not
}

// maxEarly is the most, in bytes, that a client may send before its upgrade is answered.
const maxEarly = 64 << 10

// hangupPeriod is how often the connection of a client is looked at that has sent so much.
const hangupPeriod = time.Second

// acquire leases a connection for the client. If none is idle, the client waits in the service's queue.
func (g *Gate) acquire(service *route.Service, nc net.Conn, req *handshake.Request, arrival *arrival) (*backend.Conn, error) {
	arrival.Key = service.HashBy.Key(req, arrival.Address.Addr().String())
	waiter := &pool.Waiter[*backend.Conn]{Key: arrival.Key, Variant: arrival.Variant, Tenant: record.TenantOf(arrival.Identity)}
	if arrival.Named != nil {
		waiter.Prefer = arrival.Named.Backend.Pool()
	}
	conn, ok, err := service.Group.Acquire(waiter)
	if err != nil {
		return nil, route.Unavailable(err.Error())
	}
	if ok {
		return conn, nil
	}
	arrival.Position = max(arrival.Position, waiter.Position())
	if arrival.Until.IsZero() { // otherwise its first connection was lost, and the wait continues
		arrival.Until = time.Now().Add(service.QueueTimeout)
	}
	arrival.opening.leave(true) // the queue has a limit of its own
	begins := arrival.told == nil
	if begins {
		arrival.told = newTelling(service, nc, req, arrival)
	}
	w := record.NewWaiting(&arrival.Client, service, waiter.Ticket())
	if arrival.told != nil {
		w.Tell = arrival.told.offer
	}
	g.sessions.AddWaiting(w) // until its session begins or it is refused
	if t := arrival.told; begins && t != nil && !t.accept(req, arrival, g.board.wait(service, arrival.Position)) {
		if conn, leased := service.Group.Leave(waiter, pool.LeftEarly); leased {
			conn.ReturnUnused()
		}
		return nil, route.ErrLeft
	}
	if service.ReconnectEvict {
		g.sessions.EndParked(service)
	}
	client := readEarly(nc, arrival.told)
	conn, err = service.Wait(g.drained, waiter, arrival.Until, client.left, w.Killed, arrival.told.news())
	if early := client.stop(); arrival.told != nil {
		req.Early, arrival.Told = arrival.told.received(), arrival.told.sent
	} else {
		req.Early = append(req.Early, early...)
	}
	if conn != nil && client.hasLeft() {
		conn.ReturnUnused()
		return nil, route.ErrLeft
	}
	if conn != nil {
		if refusal := g.revoked(service, arrival.Identity); refusal != nil {
			conn.ReturnUnused()
			return nil, refusal
		}
	}
	return conn, err
}

// earlyReader reads what a client sends while it waits in the queue, to notice when it leaves.
type earlyReader struct {
	nc      net.Conn
	answers *boundedAnswers // of TLS; nil without TLS
	left    chan struct{}   // closed when the client has left
	stopped chan struct{}   // closed by stop
	done    chan struct{}   // closed when the goroutine has ended
	early   []byte          // what was received; owned by the goroutine until done is closed
	told    *telling        // takes it instead; nil for a client that was not accepted
}

// readEarly starts a goroutine that reads from nc until stop is called. A client that was accepted has left when it has sent its close frame,
// or broken the protocol.
func readEarly(nc net.Conn, told *telling) *earlyReader {
	r := &earlyReader{nc: nc, answers: boundAnswers(nc), left: make(chan struct{}), stopped: make(chan struct{}), done: make(chan struct{}), told: told}
	_ = nc.SetDeadline(time.Time{}) // the request has been read, so the handshake's deadline no longer applies
	go func() {
		defer close(r.done)
		for !r.full() { // the rest stays in the socket
			var buf [512]byte
			n, err := nc.Read(buf[:])
			if !r.take(buf[:n]) || r.answers.failed() {
				close(r.left)
				return
			}
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					close(r.left)
				}
				return
			}
		}
		r.awaitHangup()
	}()
	return r
}

// awaitHangup looks every now and then whether a client has left of which no more is read.
func (r *earlyReader) awaitHangup() {
	tick := time.NewTicker(hangupPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if machine.HungUp(secure.Under(r.nc)) {
				close(r.left)
				return
			}
		case <-r.stopped:
			return
		}
	}
}

func (r *earlyReader) full() bool {
	return r.told != nil && r.told.full() || len(r.early) >= maxEarly
}

// take takes what was read, and returns false if the client has left by what it says.
func (r *earlyReader) take(b []byte) bool {
	if r.told != nil {
		return r.told.take(b)
	}
	r.early = append(r.early, b...)
	return true
}

// hasLeft reports whether the client has left.
func (r *earlyReader) hasLeft() bool {
	select {
	case <-r.left:
		return true
	default:
		return false
	}
}

// stop ends the reading and returns what was received.
func (r *earlyReader) stop() []byte {
	close(r.stopped)
	_ = r.nc.SetReadDeadline(time.Unix(1, 0))
	r.answers.end()
	<-r.done
	_ = r.nc.SetReadDeadline(time.Time{})
	r.answers.restore()
	return r.early
}

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

// boundAnswers becomes the transport of nc; it returns nil without TLS. nc must not be used meanwhile.
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

// NetConn returns the transport, as that of [tls.Conn] does.
func (a *boundedAnswers) NetConn() net.Conn { return a.Conn }

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

// restore gives the TLS connection its own transport back. It must not be used meanwhile.
func (a *boundedAnswers) restore() {
	if a == nil {
		return
	}
	a.line.Conn = a.Conn
	_ = a.Conn.SetWriteDeadline(time.Time{})
}
