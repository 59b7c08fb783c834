package route

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// This file waits in a service's queue, for clients before their session and for sessions that need another connection.

// ErrLeft means that a client left while it waited for a connection.
var ErrLeft = errors.New("client left the queue")

// News is what a client is to be told while it waits.
type News struct {
	Ready <-chan struct{} // receives when there is something to tell
	Tell  func() bool     // tells it, and returns false if the client has left
}

// ready returns the channel of n, which may be nil.
func (n *News) ready() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.Ready
}

// Wait waits for the connection of a client in the queue. It returns an error when the time is up, when left is closed because the client left
// (ErrLeft), when an operator ends the wait (killed brings the reason), when ctx ends because the process does, or when the service is removed.
// A client that was accepted is told its news meanwhile; nil for none.
func (s *Service) Wait(
	ctx context.Context, waiter *pool.Waiter[*backend.Conn], until time.Time, left <-chan struct{}, killed <-chan string, news *News,
) (*backend.Conn, error) {
	timeout := time.NewTimer(time.Until(until))
	defer timeout.Stop()
	why, err := pool.TimedOut, error(nil)
	for {
		select {
		case <-news.ready():
			if news.Tell() {
				continue
			}
			why, err = pool.LeftEarly, ErrLeft
		case conn := <-waiter.Ready():
			if refused := waiter.Refused(); refused != nil {
				return nil, refusal(refused)
			}
			return conn, nil
		case <-timeout.C:
			err = Unavailable("no connection came free in time")
		case <-left:
			why, err = pool.LeftEarly, ErrLeft
		case reason := <-killed:
			why, err = pool.TurnedAway, &WaitEnded{Unavailable(reason), frame.ServiceRestart}
		case <-ctx.Done():
			why, err = pool.TurnedAway, &WaitEnded{Unavailable("shutting down"), frame.GoingAway}
		case <-s.Removed:
			gone := &handshake.Refusal{Status: http.StatusNotFound, Reason: "the service was removed"}
			why, err = pool.TurnedAway, &WaitEnded{gone, frame.GoingAway}
		}
		break
	}
	conn, leased := s.Group.Leave(waiter, why) // leased if it got a connection at the last moment
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

// RetryAfter is the Retry-After of a 503, in seconds.
const RetryAfter = 1

// Unavailable returns the answer to a client that may come again soon (RFC 9110, section 15.6.4).
func Unavailable(reason string) *handshake.Refusal {
	return &handshake.Refusal{
		Status: http.StatusServiceUnavailable, Reason: reason, Header: handshake.RetryAfter(RetryAfter),
	}
}

// refusal returns the HTTP answer for a client that was refused while it waited: the backend's answer if the backend refused the
// client's own values.
func refusal(err error) error {
	if errors.Is(err, pool.ErrEvicted) {
		return Unavailable(err.Error())
	}
	if status := (*handshake.StatusError)(nil); errors.As(err, &status) {
		return status.Refusal()
	}
	return &handshake.Refusal{Status: http.StatusBadGateway, Reason: err.Error()}
}

// WaitEnded is why a client waits no longer, if its close code says more than its HTTP status.
type WaitEnded struct {
	*handshake.Refusal
	Code frame.CloseCode
}

// Unwrap returns the HTTP answer.
func (e *WaitEnded) Unwrap() error { return e.Refusal }
