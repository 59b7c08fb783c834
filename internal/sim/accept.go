package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/secure"
)

// handshakeTimeout is how long a client may take for its upgrade request.
const handshakeTimeout = 10 * time.Second

// accept takes connections until the listener is closed. Each handshake has a goroutine of its own.
func (s *Server) accept() {
	log := s.options.Logger
	for number := uint64(1); ; number++ {
		nc, err := s.listener.Accept()
		if err == nil {
			s.tasks.Go(func() { s.upgrade(nc, number) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Most likely out of descriptors, which may pass.
		log.Warn("cannot accept connections", "error", err)
		select {
		case <-s.ending.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// upgrade carries out the opening handshake, behind that of TLS if there is one, and hands the connection to a loop.
func (s *Server) upgrade(accepted net.Conn, number uint64) {
	stop := context.AfterFunc(s.ending, func() { _ = accepted.Close() })
	defer stop()
	_ = accepted.SetDeadline(time.Now().Add(handshakeTimeout))
	nc := accepted
	if s.options.TLS != nil {
		nc = secure.Server(accepted, s.options.TLS)
	}
	dice := rand.New(rand.NewPCG(s.options.Seed, number))
	request, placed, refusal := s.admit(nc, dice)
	if refusal != nil {
		handshake.Refuse(nc, refusal)
		return
	}
	if request == nil {
		_ = accepted.Close()
		return
	}
	if tcp, ok := accepted.(*net.TCPConn); ok && s.options.Fail.Reset > 0 {
		// Closing the descriptor resets the connection from now on, unless it was ended in order before.
		_ = tcp.SetLinger(0) // fails only if the connection is broken, which is noticed below
	}
	if err := s.hand(nc, stop, request, placed, dice); err != nil {
		s.slots.release()
		if placed {
			s.places.release()
		}
		_ = accepted.Close()
		s.options.Logger.Debug("a client left during its handshake", "error", err)
	}
}

// admit reads a request and takes a slot for it, and a place for a session where connections take one. Without a request and a
// refusal, nobody is there to answer.
func (s *Server) admit(nc net.Conn, dice *rand.Rand) (_ *handshake.Request, placed bool, _ *handshake.Refusal) {
	request, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	var refusal *handshake.Refusal
	switch {
	case errors.As(err, &refusal):
	case err != nil:
		return nil, false, nil
	default:
		refusal = request.Check()
	}
	if refusal != nil {
		s.counters.badRequests.Add(1)
		return nil, false, refusal
	}
	if p := s.options.Fail.Refuse; p > 0 && dice.Float64() < p {
		s.slots.refuse()
		return nil, false, full("refused on request")
	}
	if !s.slots.take() {
		return nil, false, full(fmt.Sprintf("all %d sessions are in use", s.options.Sessions))
	}
	if status := s.protocol.fullStatus; status != 0 {
		if placed = s.places.take(); !placed {
			s.slots.giveBack()
			refusal := full("no place for another session")
			refusal.Status = status
			return nil, false, refusal
		}
	}
	return request, placed, nil
}

func full(reason string) *handshake.Refusal {
	return &handshake.Refusal{Status: http.StatusServiceUnavailable, Reason: reason, Header: handshake.RetryAfter(1)}
}

// hand accepts the upgrade and moves the connection from package net to a loop.
func (s *Server) hand(nc net.Conn, stop func() bool, request *handshake.Request, placed bool, dice *rand.Rand) error {
	subprotocol := s.options.Subprotocol
	if subprotocol == "" {
		subprotocol = s.protocol.Subprotocol
	}
	if subprotocol != "" && !request.Offers(subprotocol) {
		subprotocol = ""
	}
	if _, err := nc.Write(request.AppendAccept(nil, subprotocol)); err != nil {
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
	if !l.Post(func() { s.serve(l, socket, request, placed, dice) }) {
		socket.Close()
		return loop.ErrStopped
	}
	return nil
}
