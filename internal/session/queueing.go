package session

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// arrival is how a client came to its session.
type arrival struct {
	id   ID
	path string // that it asks for, without the query, as shortened returns it
	// requestID is the client's X-Request-Id; empty for none that is valid.
	requestID string
	at        time.Time // when its connection was accepted
	client    origin.Address
	peer      *origin.Address // that its connection comes from, if that is not client; nil otherwise
	asked     time.Time       // when its request had been read
	position  int             // in the queue when it began to wait; 0 if it did not wait
	until     time.Time       // when its wait times out; zero if it did not wait
	key       uint64          // hash that chooses its backend
	variant   string          // variant of the connection that it needs
	trace     *Trace          // nil for none
	opening   *opening        // its unfinished handshake
	// certificate is what the client has presented and the listener verified, over TLS; nil for none.
	certificate *x509.Certificate
	// identity is who the client is, if its service authenticates clients; nil for nobody. Set by authenticate, also if it refuses a client
	// that is known.
	identity *identity.Identity
	question *question    // to ask once more about the client later; nil for none
	grant    string       // subprotocol to grant if the client offers none that the server has chosen; empty for none
	hold     *limits.Hold // its places in what is limited; nil before they are taken
	limitsAt uint64       // the generation of limits at which they were taken
	told     *telling     // the client was accepted while it waits; nil if it was not
}

// maxEarly is the most, in bytes, that a client may send before its upgrade is answered.
const maxEarly = 64 << 10

// errLeft means that a client left while it waited for a connection.
var errLeft = errors.New("client left the queue")

// acquire leases a connection for the client. If none is idle, the client waits in the service's queue.
func (s *Server) acquire(service *Service, nc net.Conn, req *handshake.Request, arrival *arrival) (*backend.Conn, error) {
	arrival.key = service.HashBy.key(req, arrival.client.Addr().String())
	waiter := &pool.Waiter[*backend.Conn]{Key: arrival.key, Variant: arrival.variant, Tenant: tenantOf(arrival.identity)}
	conn, ok, err := service.Group.Acquire(waiter)
	if err != nil {
		return nil, unavailable(err.Error())
	}
	if ok {
		return conn, nil
	}
	arrival.position = max(arrival.position, waiter.Position())
	if arrival.until.IsZero() { // otherwise its first connection was lost, and the wait goes on
		arrival.until = time.Now().Add(service.QueueTimeout)
	}
	arrival.opening.leave(true) // the queue has a limit of its own
	begins := arrival.told == nil
	if begins {
		arrival.told = newTelling(service, nc, req, arrival)
	}
	w := &waiting{
		arrival: *arrival, service: service, ticket: waiter.Ticket(), killed: make(chan string, 1),
	}
	s.registry.addWaiting(w) // until its session begins or it is refused
	if t := arrival.told; begins && t != nil && !t.accept(req, arrival, s.board.wait(service, arrival.position)) {
		if conn, leased := service.Group.Leave(waiter, pool.LeftEarly); leased {
			conn.ReturnUnused()
		}
		return nil, errLeft
	}
	client := readEarly(nc, arrival.told)
	conn, err = s.queued(s.drained, service, waiter, arrival.until, client.left, w.killed, arrival.told)
	if early := client.stop(); arrival.told != nil {
		req.Early = arrival.told.received()
	} else {
		req.Early = append(req.Early, early...)
	}
	if conn != nil && client.hasLeft() {
		conn.ReturnUnused()
		return nil, errLeft
	}
	return conn, err
}

// queued waits for the connection of a client in the queue. It returns an error when the time is up, when left is closed because
// the client left (errLeft), when an operator ends the wait (killed brings the reason), when ctx ends because the process does, or
// when the service is removed. A client that was accepted is told its place meanwhile.
func (s *Server) queued(
	ctx context.Context, service *Service, waiter *pool.Waiter[*backend.Conn], until time.Time, left <-chan struct{}, killed <-chan string, told *telling,
) (*backend.Conn, error) {
	timeout := time.NewTimer(time.Until(until))
	defer timeout.Stop()
	why, err := pool.TimedOut, error(nil)
	places, pongs := told.waitsFor()
	for {
		select {
		case p := <-places:
			if told.tellPlace(p) {
				continue
			}
			why, err = pool.LeftEarly, errLeft
		case payload := <-pongs:
			if told.pong(payload) {
				continue
			}
			why, err = pool.LeftEarly, errLeft
		case conn := <-waiter.Ready():
			if refused := waiter.Refused(); refused != nil {
				return nil, refusal(refused)
			}
			return conn, nil
		case <-timeout.C:
			err = unavailable("no connection came free in time")
		case <-left:
			why, err = pool.LeftEarly, errLeft
		case reason := <-killed:
			why, err = pool.TurnedAway, &waitEnded{unavailable(reason), frame.ServiceRestart}
		case <-ctx.Done():
			why, err = pool.TurnedAway, &waitEnded{unavailable("shutting down"), frame.GoingAway}
		case <-service.Removed:
			gone := &handshake.Refusal{Status: http.StatusNotFound, Reason: "the service was removed"}
			why, err = pool.TurnedAway, &waitEnded{gone, frame.GoingAway}
		}
		break
	}
	conn, leased := service.Group.Leave(waiter, why) // leased if it got a connection at the last moment
	switch {
	case !leased && waiter.Refused() != nil: // at the last moment
		return nil, refusal(waiter.Refused())
	case !leased:
		return nil, err
	case why == pool.TimedOut:
		return conn, nil
	}
	conn.ReturnUnused()
	return nil, err
}

// tenantOf returns the tenant of a client; empty for none.
func tenantOf(who *identity.Identity) string {
	if who == nil {
		return ""
	}
	return who.Tenant
}

// refusal returns the HTTP answer for a client that was refused while it waited: the backend's answer if the backend refused the
// client's own values.
func refusal(err error) error {
	if errors.Is(err, pool.ErrEvicted) {
		return unavailable(err.Error())
	}
	if status := (*handshake.StatusError)(nil); errors.As(err, &status) {
		return status.Refusal()
	}
	return &handshake.Refusal{Status: http.StatusBadGateway, Reason: err.Error()}
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
