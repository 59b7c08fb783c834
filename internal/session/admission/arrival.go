package admission

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// admit reads the request of a client that arrived at begun and starts its session, or refuses it with an HTTP answer. It answers
// health checks. It owns nc, whose deadline is set. config is nil for a client that does not speak TLS, and via for one that no other proxy forwards.
func (g *Gate) admit(nc net.Conn, config func() *tls.Config, begun time.Time, opening *opening, via *Forwarded) {
	arrival := arrival{Client: record.Client{Arrived: begun, Address: origin.AddressOf(nc.RemoteAddr())}, opening: opening, via: via}
	policy, peer := g.origin.Load(), arrival.Address
	var early []byte
	var err error
	if via != nil {
		arrival.Address, arrival.Peer, arrival.certificate = via.Address, via.Peer, via.Certificate
	} else {
		early, err = g.readProxyHeader(nc, policy, &arrival)
	}
	if err == nil && config != nil {
		nc, err = g.handshakeTLS(nc, early, config(), &arrival)
		early = nil // TLS has it
	}
	if failed := (*tlsFailure)(nil); errors.As(err, &failed) { // there is no request to answer
		g.tls.failed(failed, &arrival)
		_ = nc.Close()
		return
	}
	var req *handshake.Request
	if err == nil {
		req, err = g.readRequest(nc, early)
	}
	if err == nil && via == nil {
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
	arrival.ID = record.ID{Process: g.shared.Process, Number: g.lastID.Add(1)}
	defer g.sessions.RemoveWaiting(arrival.ID.Number) // also after a panic
	if err == nil {
		arrival.Path, arrival.RequestID, arrival.Trace = shortened(req.URL.Path), requestID(req), g.trace(req)
		err = g.lease(nc, req, &arrival)
	}
	if err != nil { // before it hears so, which may take it a while
		g.sessions.RemoveWaiting(arrival.ID.Number)
		g.sessions.Left(arrival.ID)
	}
	var refusal *handshake.Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal):
		opening.work(false) // until it has read the answer
		if t := arrival.told; t != nil && t.code == 0 {
			t.code = closeCodeOf(err, refusal)
		}
		g.refuse(nc, req, arrival, refusal)
	default:
		g.left(nc, arrival, err)
	}
}

// lease checks the request, authenticates the client, leases a connection for it and starts the session on the connection's loop, which owns nc
// from then on. The lease comes before the answer, so that a client gets 503 if no connection is free.
func (g *Gate) lease(nc net.Conn, req *handshake.Request, arrival *arrival) error {
	service := g.routes.Load().Find(req.Host, req.URL.Path)
	if service == nil {
		return &handshake.Refusal{Status: http.StatusNotFound, Reason: "there is no service for this path"}
	}
	if refusal := req.Check(); refusal != nil {
		return refusal
	}
	if refusal := refuseOrigin(service, req.Request, arrival.certificate != nil); refusal != nil {
		return refusal
	}
	asked, err := resume.Take(req)
	if err != nil {
		return err
	}
	if asked.Token != "" {
		return g.resume(service, nc, req, arrival, asked)
	}
	arrival.Messages = asked.Messages
	if service.Reconnect > 0 {
		arrival.Resume = resume.NewToken(g.shared.Process)
	}
	started := false
	defer func() {
		if !started { // also after a panic
			arrival.Hold.Cancel()
			service.Affinity.End(arrival.Named)
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
	if service.Affinity != nil {
		if id := service.Profile.Affinity().InRequest(req.URL.RawQuery, arrival.field(req)); id != "" {
			arrival.SaysID, arrival.Named = true, service.Affinity.Find(arrival.Identity, id)
		}
	}
	for {
		if g.drained.Err() != nil {
			return route.Unavailable("shutting down")
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

// errShort is the answer to a client for whose connection a descriptor is missing.
var errShort = route.Unavailable("the proxy is short of file descriptors")

// resume brings a client back to its session, which keeps its places in what is limited.
func (g *Gate) resume(service *route.Service, nc net.Conn, req *handshake.Request, arrival *arrival, asked resume.Asked) error {
	done, err := g.elsewhere(service, nc, req, arrival, asked)
	if done {
		return nil
	}
	if err == nil { // before anything is computed or asked for a client that has no session, whose limits such a request does not count in
		err = g.sessions.MayResume(service, asked)
	}
	if err == nil {
		err = g.authenticate(service, req, arrival)
	}
	if err == nil {
		err = g.sessions.Resume(service, nc, req, &arrival.Client, asked)
	}
	if g.options.Descriptors.Failed(machine.Accepting, err) {
		err = errShort
	}
	refusal := (*handshake.Refusal)(nil)
	if err == nil {
		arrival.opening.leave(true)
	} else if errors.As(err, &refusal) {
		if asked.Messages {
			g.acceptRefused(service, nc, req, arrival, refusal)
			if at := refusal.Header.Get(locationField); at != "" {
				arrival.told.write(frame.AppendMessage(nil, frame.Text, true, fmt.Appendf(nil, `{"wsbouncer":{"go":%q}}`, at), false))
			}
		}
	}
	return err
}

// maxPath is how much of a client's path a session remembers, in bytes.
const maxPath = 256

// shortened returns a copy of a path, at most maxPath bytes of it, which is printable and keeps nothing else of the request in memory.
func shortened(path string) string { return strings.Clone(printable.Text(path, maxPath)) }

// start brings the client to the leased connection's loop. It returns false if the connection was lost meanwhile.
func (g *Gate) start(service *route.Service, conn *backend.Conn, nc net.Conn, req *handshake.Request, arrival *arrival) (bool, error) {
	type outcome struct {
		started bool
		err     error
	}
	done := make(chan outcome, 1)
	conn.Use(func(alive bool) {
		defer func() { // answer also after a panic
			select {
			case done <- outcome{err: panics.Err}:
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
				err = errShort
			}
			done <- outcome{err: err}
			return
		}
		arrival.opening.leave(true)
		arrival.Accepted = arrival.told != nil
		g.sessions.Begin(service, conn, socket, req, &arrival.Client)
		done <- outcome{started: true}
	})
	o := <-done
	return o.started, o.err
}

// trace returns the session's place in a trace: what the client says of one, which is ignored if it is invalid, and what the proxy
// makes of it; nil if there is nothing to say.
func (g *Gate) trace(req *handshake.Request) *record.Trace {
	trace := record.TraceOf(req.Header)
	if g.options.Trace != nil {
		trace = g.options.Trace(trace)
	}
	return trace
}

// readProxyHeader reads the PROXY header that a connection from a.Address may begin with, and sets a.Address to the address in it. It
// returns what was read that does not belong to the header. The connection's deadline bounds it.
func (g *Gate) readProxyHeader(nc net.Conn, policy *origin.Policy, a *arrival) (behind []byte, err error) {
	peer := a.Address
	may, must := policy.ProxyHeader(peer)
	if !may {
		return nil, nil
	}
	source, found, behind, err := origin.ReadProxyHeader(nc)
	switch {
	case err != nil:
		return nil, badProxyHeader(err)
	case must && !found:
		return nil, &handshake.Refusal{Status: http.StatusBadRequest, Reason: "the PROXY header is missing, which connections from this address must begin with"}
	}
	a.comeFrom(source, peer)
	if found && !a.opening.comeFrom(source.Addr()) {
		return nil, errDropped
	}
	return behind, nil
}

// readRequest reads the request of a client, which begins with early. The connection's deadline bounds it.
func (g *Gate) readRequest(nc net.Conn, early []byte) (*handshake.Request, error) {
	from := io.Reader(nc)
	if len(early) > 0 {
		from = io.MultiReader(bytes.NewReader(early), nc) // ReadRequest reads all of early, since that is shorter than its buffer
	}
	return handshake.ReadRequest(from, g.limits.Load().MaxHead)
}

// badProxyHeader returns the answer to a connection whose PROXY header cannot be read. With an error that is not an answer there is no client
// to answer.
func badProxyHeader(err error) error {
	if bad := (*origin.HeaderError)(nil); errors.As(err, &bad) {
		return &handshake.Refusal{Status: http.StatusBadRequest, Reason: bad.Reason}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &handshake.Refusal{Status: http.StatusRequestTimeout, Reason: "the PROXY header did not arrive in time"}
	}
	return err
}

// comeFrom notes the client's address, unless that is not known, and the peer's where it differs.
func (a *arrival) comeFrom(client, peer origin.Address) {
	if !client.IsValid() || client == a.Address {
		return
	}
	a.Address, a.Peer = client, nil
	if client != peer {
		kept := peer // so that only this case allocates
		a.Peer = &kept
	}
}

// field returns what a service may pass of a request's header. X-Forwarded-For has the client's address, and nothing that the client wrote.
func (a *arrival) field(req *handshake.Request) func(name string) []string {
	return func(name string) []string {
		if name == "X-Forwarded-For" && a.Address.IsValid() {
			return []string{a.Address.Addr().WithZone("").String()}
		}
		return req.Forwarded(name)
	}
}

// requestIDHeader is the header in which clients, and balancers before the proxy, say what they call a request.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the longest request id, in bytes.
const maxRequestID = 128

// requestID returns the client's name for its request; empty unless there is exactly one and it is valid.
func requestID(req *handshake.Request) string {
	values := req.Header[requestIDHeader]
	if len(values) != 1 || !isRequestID(values[0]) {
		return ""
	}
	return strings.Clone(values[0]) // it keeps nothing else of the request in memory
}

// isRequestID reports whether a text may stand in logs and in the admin API as the client wrote it.
func isRequestID(text string) bool {
	if text == "" || len(text) > maxRequestID {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte("-._~:/+=@", c) < 0 {
			return false
		}
	}
	return true
}
