package session

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/mistake"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// idHeader is the field of the answer to an upgrade request that has the session's id. Package api names it for users.
const idHeader = "X-Wsbouncer-Session-Id"

// retryAfter is the Retry-After of a 503, in seconds.
const retryAfter = 1

// admit reads the request of a client that arrived at begun and starts its session, or refuses it with an HTTP answer. It answers
// health checks. It owns nc, whose deadline is set. config is nil for a client that does not speak TLS.
func (s *Server) admit(nc net.Conn, config func() *tls.Config, begun time.Time, opening *opening) {
	arrival := arrival{at: begun, client: origin.AddressOf(nc.RemoteAddr()), opening: opening}
	policy, peer := s.origin.Load(), arrival.client
	early, err := s.readProxyHeader(nc, policy, &arrival)
	if err == nil && config != nil {
		nc, err = s.handshakeTLS(nc, early, config(), &arrival)
		early = nil // TLS has it
	}
	if failed := (*tlsFailure)(nil); errors.As(err, &failed) { // there is no request, and nobody to answer
		s.tls.failed(failed, &arrival)
		_ = nc.Close()
		return
	}
	var req *handshake.Request
	if err == nil {
		req, err = s.readRequest(nc, early)
	}
	if err == nil {
		arrival.comeFrom(policy.Client(arrival.client, req.Header), peer)
		if arrival.client != peer {
			opening.belongsTo(arrival.client.Addr())
		}
	}
	if err == nil && !opening.work(true) {
		err = errDropped
	}
	if err == nil && s.options.Health.asks(req) {
		opening.work(false)
		s.options.Health.answer(nc, req)
		return
	}
	arrival.id = ID{s.process, s.lastID.Add(1)}
	defer s.registry.removeWaiting(arrival.id.Number)
	if err == nil {
		arrival.path, arrival.requestID, arrival.trace = shortened(req.URL.Path), requestID(req), s.trace(req)
		err = s.lease(nc, req, &arrival)
	}
	if err != nil {
		s.taps.Left(arrival.id.String())
	}
	var refusal *handshake.Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		opening.work(false) // until it has read the answer
		if arrival.told != nil {
			arrival.told.code = closeCodeOf(err, refusal)
		}
		s.refuse(nc, req, arrival, refusal)
	default:
		s.left(nc, arrival, err)
	}
}

// lease checks the request, authenticates the client, leases a connection for it and starts the session on the connection's loop, which owns nc
// from then on. The lease comes before the answer, so that a client gets 503 if no connection is free.
func (s *Server) lease(nc net.Conn, req *handshake.Request, arrival *arrival) error {
	service := s.routes.Load().find(req.Host, req.URL.Path)
	if service == nil {
		return &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	if refusal := req.Check(); refusal != nil {
		return refusal
	}
	if refusal := service.refuseOrigin(req.Request, arrival.certificate != nil); refusal != nil {
		return refusal
	}
	started := false
	defer func() {
		if !started { // also after a panic
			arrival.hold.Release()
		}
	}()
	if err := s.enter(service, arrival); err != nil {
		return err
	}
	if err := s.authenticate(service, req, arrival); err != nil {
		return err
	}
	if err := s.enterAuthenticated(service, arrival); err != nil {
		return err
	}
	variant, err := service.variant(req, arrival)
	if err != nil {
		return err
	}
	arrival.asked, arrival.variant = time.Now(), variant
	for {
		if s.drained.Err() != nil {
			return unavailable("shutting down")
		}
		conn, err := s.acquire(service, nc, req, arrival)
		if err != nil {
			service.Variants.Forget(variant)
			return err
		}
		if started, err = s.start(service, conn, nc, req, arrival); started || err != nil {
			if !started {
				service.Variants.Forget(variant)
			}
			return err
		}
		// The connection was lost after it was leased: try another.
	}
}

// maxPath is how much of a client's path a session remembers, in bytes.
const maxPath = 256

// shortened returns a copy of a path, at most maxPath bytes of it, which is printable and keeps nothing else of the request in memory.
func shortened(path string) string { return strings.Clone(printable.Text(path, maxPath)) }

func unavailable(reason string) *handshake.Refusal {
	return &handshake.Refusal{
		Status: http.StatusServiceUnavailable, Reason: reason, Header: handshake.RetryAfter(retryAfter),
	}
}

// start brings the client to the leased connection's loop. It returns false if the connection was lost meanwhile.
func (s *Server) start(service *Service, conn *backend.Conn, nc net.Conn, req *handshake.Request, arrival *arrival) (bool, error) {
	type outcome struct {
		started bool
		err     error
	}
	done := make(chan outcome, 1)
	conn.Use(func(alive bool) {
		defer func() { // answer also after a panic
			select {
			case done <- outcome{err: mistake.Err}:
			default:
			}
		}()
		if !alive {
			done <- outcome{}
			return
		}
		_ = nc.SetDeadline(time.Time{}) // clear the handshake's: not every driver takes the socket out of nc
		socket, err := loop.Detach(nc)
		if err != nil {
			conn.EndUnused()
			if s.options.Descriptors.Failed(machine.Accepting, err) {
				err = unavailable("the proxy is short of file descriptors")
			}
			done <- outcome{err: err}
			return
		}
		arrival.opening.leave(true)
		session := s.newSession(service, *arrival)
		session.begin(conn, socket, req, arrival)
		done <- outcome{started: true}
	})
	o := <-done
	return o.started, o.err
}
