package session

import (
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// arrival is how a client came to its session.
type arrival struct {
	at       time.Time // its connection was accepted
	position int       // in the queue when it began to wait; 0 when it did not
	until    time.Time // when it has waited long enough; zero when it did not wait
	key      uint64    // what its backend is chosen by
	variant  string    // of the connection that it needs
}

// maxEarly is the most, in bytes, that a client may send before its upgrade is answered.
const maxEarly = 64 << 10

// errLeft is returned when a client has gone while it waited.
var errLeft = errors.New("client left the queue")

// acquire leases a connection for the client, which waits for it in the service's queue if it must.
func (s *Server) acquire(service *Service, nc net.Conn, req *handshake.Request, arrival *arrival) (*backend.Conn, error) {
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	arrival.key = service.HashBy.key(req, host)
	waiter := &pool.Waiter[*backend.Conn]{Key: arrival.key, Variant: arrival.variant}
	conn, ok, err := service.Group.Acquire(waiter)
	if err != nil {
		return nil, unavailable(err.Error())
	}
	if ok {
		return conn, nil
	}
	arrival.position = max(arrival.position, waiter.Position())
	if arrival.until.IsZero() { // otherwise it has found its connection lost, and does not wait longer for that
		arrival.until = time.Now().Add(service.QueueTimeout)
	}
	client := listen(nc)
	conn, err = s.queued(service, waiter, arrival.until, client.left)
	req.Early = append(req.Early, client.stop()...)
	if conn != nil && client.hasLeft() {
		conn.ReturnUnused()
		return nil, errLeft
	}
	return conn, err
}

// queued returns the connection for a client in the queue, or an error: when it has waited until the given time in vain, when
// left is closed because the client has gone (errLeft), when nobody is admitted any more, or when the service was removed.
func (s *Server) queued(service *Service, waiter *pool.Waiter[*backend.Conn], until time.Time, left <-chan struct{}) (*backend.Conn, error) {
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	why, err := pool.TimedOut, error(nil)
	select {
	case conn := <-waiter.Ready():
		if refused := waiter.Refused(); refused != nil {
			return nil, refusal(refused)
		}
		return conn, nil
	case <-patience.C:
		err = unavailable("no connection came free in time")
	case <-left:
		why, err = pool.LeftEarly, errLeft
	case <-s.drained.Done():
		why, err = pool.TurnedAway, unavailable("shutting down")
	case <-service.Removed:
		why, err = pool.TurnedAway, &handshake.Refusal{Status: http.StatusNotFound, Reason: "the service was removed"}
	}
	conn, leased := service.Group.Leave(waiter, why) // leased at the last moment
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

// refusal returns the answer for a client whose own values the server has refused: the server's.
func refusal(err error) error {
	if status := (*handshake.StatusError)(nil); errors.As(err, &status) {
		return status.Refusal()
	}
	return &handshake.Refusal{Status: http.StatusBadGateway, Reason: err.Error()}
}

// listener reads what a client sends while it waits, to see whether it leaves.
type listener struct {
	nc    net.Conn
	left  chan struct{} // closed when the client has left
	done  chan struct{} // closed when the goroutine has ended
	early []byte        // what was received; for whoever has waited for done
}

// listen reads from nc in a goroutine of its own until stop is called.
func listen(nc net.Conn) *listener {
	l := &listener{nc: nc, left: make(chan struct{}), done: make(chan struct{})}
	_ = nc.SetDeadline(time.Time{}) // the request is there: that of the handshake is over
	go func() {
		defer close(l.done)
		for len(l.early) < maxEarly { // what else there is stays in the socket, and its end with it
			var buf [512]byte
			n, err := nc.Read(buf[:])
			l.early = append(l.early, buf[:n]...)
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					close(l.left)
				}
				return
			}
		}
	}()
	return l
}

// hasLeft tells whether the client was seen to leave.
func (l *listener) hasLeft() bool {
	select {
	case <-l.left:
		return true
	default:
		return false
	}
}

// stop ends the reading and returns what was received.
func (l *listener) stop() []byte {
	_ = l.nc.SetReadDeadline(time.Unix(1, 0))
	<-l.done
	_ = l.nc.SetReadDeadline(time.Time{})
	return l.early
}
