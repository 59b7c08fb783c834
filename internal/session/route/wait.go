package route

import (
	"context"
	"errors"
	"math/rand/v2"
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

// For how long, or up to a quarter less, a client does not ask again whose server is perhaps full for it only: it doubles with each time.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Pause returns for how long a client does not ask again whose server is perhaps full for it only, after that many pauses before.
func Pause(before int) time.Duration {
	pause := min(lastPause, firstPause<<min(before, 10))
	return pause - rand.N(pause/4+1)
}

// pauseAfter returns for how long a client that was turned away that often leaves the queue. It asks all servers before it pauses: one that has
// turned it away is held for a moment.
func (s *Service) pauseAfter(turnedAway int) time.Duration {
	servers, _ := s.Group.Loads()
	rounds, rest := turnedAway/max(len(servers), 1), turnedAway%max(len(servers), 1)
	if rest > 0 {
		return 0
	}
	return Pause(rounds - 1)
}

// again returns what a client that was in the queue asks with for another connection, at its place there.
func again(w *pool.Waiter[*backend.Conn]) pool.Waiter[*backend.Conn] {
	return pool.Waiter[*backend.Conn]{
		Key: w.Key, Variant: w.Variant, Tenant: w.Tenant, Begun: w.Begun, Back: true, Place: w.Ticket(),
		Ahead: w.Ahead, Avoid: w.Avoid, Only: w.Only, Prefer: w.Prefer,
	}
}

// Wait waits for the connection of a client in the queue, which leaves it for a pause whenever its server may be full for it only. Wait returns an
// error when the time is up, when left is closed because the client left (ErrLeft), when an operator ends the wait (killed brings the reason), when
// ctx ends because the process does, or when the service is removed. A client that was accepted is told its news meanwhile; nil for none.
func (s *Service) Wait(
	ctx context.Context, waiter *pool.Waiter[*backend.Conn], until time.Time, left <-chan struct{}, killed <-chan string, news *News,
) (*backend.Conn, error) {
	timeout := time.NewTimer(time.Until(until))
	defer timeout.Stop()
	why, err := pool.TimedOut, error(nil)
	ready := waiter.Ready()     // nil while the client pauses
	var paused <-chan time.Time // nil while it is in the queue
	turnedAway := 0
	for {
		select {
		case <-news.ready():
			if news.Tell() {
				continue
			}
			why, err = pool.LeftEarly, ErrLeft
		case conn := <-ready:
			switch refused := waiter.Refused(); {
			case refused == nil:
				return conn, nil
			case !errors.Is(refused, backend.ErrForClientOnly):
				return nil, refusal(refused)
			}
			turnedAway++
			*waiter = again(waiter)
			ready, paused = nil, time.After(s.pauseAfter(turnedAway))
			continue
		case <-paused:
			conn, ok, err := s.Group.Acquire(waiter)
			switch {
			case err != nil:
				return nil, Unavailable(err.Error())
			case ok:
				return conn, nil
			}
			ready, paused = waiter.Ready(), nil
			continue
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
	if ready == nil {
		return nil, err
	}
	conn, leased := s.Group.Leave(waiter, why) // leased if it got a connection at the last moment
	switch {
	case !leased && waiter.Refused() != nil && !errors.Is(waiter.Refused(), backend.ErrForClientOnly): // at the last moment
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
