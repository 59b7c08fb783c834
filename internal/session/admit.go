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

// admit reads the request of a client that arrived at begun and starts its session, or refuses it with an HTTP answer. It answers
// health checks. It owns nc, whose deadline is set. config is nil for a client that does not speak TLS.
func (g *Gate) admit(nc net.Conn, config func() *tls.Config, begun time.Time, opening *opening) {
	arrival := arrival{Client: Client{Arrived: begun, Address: origin.AddressOf(nc.RemoteAddr())}, opening: opening}
	policy, peer := g.origin.Load(), arrival.Address
	early, err := g.readProxyHeader(nc, policy, &arrival)
	if err == nil && config != nil {
		nc, err = g.handshakeTLS(nc, early, config(), &arrival)
		early = nil // TLS has it
	}
	if failed := (*tlsFailure)(nil); errors.As(err, &failed) { // there is no request, and nobody to answer
		g.tls.failed(failed, &arrival)
		_ = nc.Close()
		return
	}
	var req *handshake.Request
	if err == nil {
		req, err = g.readRequest(nc, early)
	}
	if err == nil {
		arrival.comeFrom(policy.Client(arrival.Address, req.Header), peer)
		if arrival.Address != peer {
			opening.belongsTo(arrival.Address.Addr())
		}
	}
	if err == nil && !opening.work(true) {
		err = errDropped
	}
	if err == nil && g.options.Health.asks(req) {
		opening.work(false)
		g.options.Health.answer(nc, req)
		return
	}
	arrival.ID = ID{g.options.Process, g.lastID.Add(1)}
	defer g.options.Waiting.RemoveWaiting(arrival.ID.Number)
	if err == nil {
		arrival.Path, arrival.RequestID, arrival.Trace = shortened(req.URL.Path), requestID(req), g.trace(req)
		err = g.lease(nc, req, &arrival)
	}
	if err != nil {
		g.options.Left(arrival.ID)
	}
	var refusal *handshake.Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		opening.work(false) // until it has read the answer
		if arrival.told != nil {
			arrival.told.code = closeCodeOf(err, refusal)
		}
		g.refuse(nc, req, arrival, refusal)
	default:
		g.left(nc, arrival, err)
	}
}

// lease checks the request, authenticates the client, leases a connection for it and starts the session on the connection's loop, which owns nc
// from then on. The lease comes before the answer, so that a client gets 503 if no connection is free.
func (g *Gate) lease(nc net.Conn, req *handshake.Request, arrival *arrival) error {
	service := g.routes.Load().find(req.Host, req.URL.Path)
	if service == nil {
		return &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	if refusal := req.Check(); refusal != nil {
		return refusal
	}
	if refusal := refuseOrigin(service, req.Request, arrival.certificate != nil); refusal != nil {
		return refusal
	}
	started := false
	defer func() {
		if !started { // also after a panic
			arrival.Hold.Release()
		}
	}()
	if err := g.enter(service, arrival); err != nil {
		return err
	}
	if err := g.authenticate(service, req, arrival); err != nil {
		return err
	}
	if err := g.enterAuthenticated(service, arrival); err != nil {
		return err
	}
	variant, err := variantOf(service, req, arrival)
	if err != nil {
		return err
	}
	arrival.Asked, arrival.Variant = time.Now(), variant
	for {
		if g.drained.Err() != nil {
			return Unavailable("shutting down")
		}
		conn, err := g.acquire(service, nc, req, arrival)
		if err != nil {
			service.Variants.Forget(variant)
			return err
		}
		if started, err = g.start(service, conn, nc, req, arrival); started || err != nil {
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

// start brings the client to the leased connection's loop. It returns false if the connection was lost meanwhile.
func (g *Gate) start(service *Service, conn *backend.Conn, nc net.Conn, req *handshake.Request, arrival *arrival) (bool, error) {
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
			if g.options.Descriptors.Failed(machine.Accepting, err) {
				err = Unavailable("the proxy is short of file descriptors")
			}
			done <- outcome{err: err}
			return
		}
		arrival.opening.leave(true)
		arrival.Accepted = arrival.told != nil
		g.options.Begin(service, conn, socket, req, &arrival.Client)
		done <- outcome{started: true}
	})
	o := <-done
	return o.started, o.err
}
