package session

import (
	"crypto/x509"
	"errors"
	"net"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// arrival is a client on its way to a session. The goroutine of its handshake owns it.
type arrival struct {
	Client
	opening *opening // its unfinished handshake
	// certificate is what the client has presented and the listener verified, over TLS; nil for none.
	certificate *x509.Certificate
	told        *telling // the client was accepted while it waits; nil if it was not
}

// maxEarly is the most, in bytes, that a client may send before its upgrade is answered.
const maxEarly = 64 << 10

// acquire leases a connection for the client. If none is idle, the client waits in the service's queue.
func (g *Gate) acquire(service *Service, nc net.Conn, req *handshake.Request, arrival *arrival) (*backend.Conn, error) {
	arrival.Key = service.HashBy.key(req, arrival.Address.Addr().String())
	waiter := &pool.Waiter[*backend.Conn]{Key: arrival.Key, Variant: arrival.Variant, Tenant: TenantOf(arrival.Identity)}
	conn, ok, err := service.Group.Acquire(waiter)
	if err != nil {
		return nil, Unavailable(err.Error())
	}
	if ok {
		return conn, nil
	}
	arrival.Position = max(arrival.Position, waiter.Position())
	if arrival.Until.IsZero() { // otherwise its first connection was lost, and the wait goes on
		arrival.Until = time.Now().Add(service.QueueTimeout)
	}
	arrival.opening.leave(true) // the queue has a limit of its own
	begins := arrival.told == nil
	if begins {
		arrival.told = newTelling(service, nc, req, arrival)
	}
	w := NewWaiting(&arrival.Client, service, waiter.Ticket())
	if arrival.told != nil {
		w.Tell = arrival.told.offer
	}
	g.options.Waiting.AddWaiting(w) // until its session begins or it is refused
	if t := arrival.told; begins && t != nil && !t.accept(req, arrival, g.board.wait(service, arrival.Position)) {
		if conn, leased := service.Group.Leave(waiter, pool.LeftEarly); leased {
			conn.ReturnUnused()
		}
		return nil, ErrLeft
	}
	client := readEarly(nc, arrival.told)
	conn, err = service.Wait(g.drained, waiter, arrival.Until, client.left, w.Killed, arrival.told.news())
	if early := client.stop(); arrival.told != nil {
		req.Early = arrival.told.received()
	} else {
		req.Early = append(req.Early, early...)
	}
	if conn != nil && client.hasLeft() {
		conn.ReturnUnused()
		return nil, ErrLeft
	}
	return conn, err
}

// earlyReader reads what a client sends while it waits in the queue, to notice when it leaves.
type earlyReader struct {
	nc      net.Conn
	answers *boundedAnswers // of TLS; nil without TLS
	left    chan struct{}   // closed when the client has left
	done    chan struct{}   // closed when the goroutine has ended
	early   []byte          // what was received; owned by the goroutine until done is closed
	told    *telling        // takes it instead; nil for a client that was not accepted
}

// readEarly starts a goroutine that reads from nc until stop is called. A client that was accepted has left when it has sent its close frame,
// or broken the protocol.
func readEarly(nc net.Conn, told *telling) *earlyReader {
	r := &earlyReader{nc: nc, answers: boundAnswers(nc), left: make(chan struct{}), done: make(chan struct{}), told: told}
	_ = nc.SetDeadline(time.Time{}) // the request has been read, so the handshake's deadline no longer applies
	go func() {
		defer close(r.done)
		for !r.full() { // the rest stays in the socket, and so does the end of the stream
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
	}()
	return r
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
	_ = r.nc.SetReadDeadline(time.Unix(1, 0))
	r.answers.end()
	<-r.done
	_ = r.nc.SetReadDeadline(time.Time{})
	r.answers.restore()
	return r.early
}
