package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// handshakeTimeout is how long a client may take to send its upgrade request.
const handshakeTimeout = 10 * time.Second

// accept accepts connections until the listener is closed, which is before life ends. Each handshake has its own goroutine.
func (s *Server) accept(life context.Context, listener net.Listener) {
	log := s.options.Logger
	for {
		nc, err := listener.Accept()
		if err == nil {
			number := s.accepted.Add(1)
			s.tasks.Go(func() { s.upgrade(life, nc, number) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Most likely no file descriptor is free at the moment.
		log.Warn("cannot accept connections", "error", err)
		select {
		case <-life.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// upgrade performs the handshake of TLS, if the server uses it, and the opening handshake, and hands the connection to a loop.
func (s *Server) upgrade(life context.Context, accepted net.Conn, number uint64) {
	stop := context.AfterFunc(life, func() { _ = accepted.Close() })
	defer stop()
	_ = accepted.SetDeadline(time.Now().Add(handshakeTimeout))
	nc := accepted
	if s.options.TLS != nil {
		nc = secure.Server(accepted, s.options.TLS, nil)
	}
	dice := rand.New(rand.NewPCG(s.options.Seed, number))
	request, placed, refuse := s.admit(nc, dice)
	if refuse != nil {
		refuse(nc)
		return
	}
	if request == nil {
		_ = accepted.Close()
		return
	}
	if tcp, ok := accepted.(*net.TCPConn); ok && s.options.Fail.Reset > 0 {
		// From now on, closing the socket resets the connection, unless the stream was ended before.
		_ = tcp.SetLinger(0) // fails only if the connection is broken, which the next write shows
	}
	if err := s.hand(life, nc, stop, request, placed, dice); err != nil {
		s.giveBack(placed)
		_ = accepted.Close()
		s.options.Logger.Debug("a client left during its handshake", "error", err)
	}
}

// giveBack frees the slot, and the place, of a connection that did not begin.
func (s *Server) giveBack(placed bool) {
	s.slots.release()
	if placed {
		s.places.release()
	}
}

// admit reads a request and takes a slot for it, and a place for a session if the protocol takes it at connect. Otherwise it returns
// a function that refuses the client. It returns neither if the client has left.
func (s *Server) admit(nc net.Conn, dice *rand.Rand) (_ *handshake.Request, placed bool, refuse func(net.Conn)) {
	request, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	var refusal *handshake.Refusal
	switch {
	case errors.As(err, &refusal):
	case err != nil:
		return nil, false, nil
	default:
		if refusal = request.Check(); refusal == nil && s.options.Path != "" && request.URL.Path != s.options.Path {
			refusal = &handshake.Refusal{Status: http.StatusNotFound, Reason: fmt.Sprintf("the path is %s, not %.100q", s.options.Path, request.URL.Path)}
		}
	}
	if refusal != nil {
		s.counters.badRequests.Add(1)
		return nil, false, refuseWith(refusal)
	}
	if wrong, missing := s.wrongKey(request.Request); wrong && s.refusesByStatus() {
		s.slots.refuse()
		return nil, false, s.protocol.auth.status(missing, uuid(dice)).answer
	}
	if s.options.Admit != nil {
		if status := s.options.Admit(request.Request); status != 0 {
			s.slots.refuse()
			return nil, false, refuseWith(&handshake.Refusal{Status: status, Reason: "refused on request"})
		}
	}
	if p := s.options.Fail.Refuse; p > 0 && dice.Float64() < p {
		s.slots.refuse()
		return nil, false, refuseWith(full("refused on request"))
	}
	if !s.slots.take() {
		return nil, false, refuseWith(full(fmt.Sprintf("all %d sessions are in use", s.options.Sessions)))
	}
	if status := s.protocol.fullStatus; status != 0 {
		if placed = s.places.take(); !placed {
			s.slots.giveBack()
			refusal := full("no place for another session")
			refusal.Status = status
			return nil, false, refuseWith(refusal)
		}
	}
	return request, placed, nil
}

// refuseWith returns a function that sends a refusal.
func refuseWith(refusal *handshake.Refusal) func(net.Conn) {
	return func(nc net.Conn) { handshake.Refuse(nc, refusal) }
}

func full(reason string) *handshake.Refusal {
	return &handshake.Refusal{Status: http.StatusServiceUnavailable, Reason: reason, Header: handshake.RetryAfter(1)}
}

// hand accepts the upgrade and hands the connection to a loop.
func (s *Server) hand(life context.Context, nc net.Conn, stop func() bool, request *handshake.Request, placed bool, dice *rand.Rand) error {
	if _, err := nc.Write(request.AppendAccept(nil, s.subprotocolOf(request.Request))); err != nil {
		return err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if !stop() {
		return net.ErrClosed
	}
	socket, err := loop.Detach(nc)
	if err != nil {
		_ = nc.Close()
		return err
	}
	l := s.group.Pick()
	if !l.Post(func() { s.serve(l, socket, request, life, placed, dice) }) {
		socket.Close()
		return loop.ErrStopped
	}
	return nil
}
