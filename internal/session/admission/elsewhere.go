package admission

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// A client that comes back to its session may get to another proxy of the fleet than the one that has it. Its token names that proxy, which is
// asked: it wants the client to come there itself, or the client's connection to be forwarded to it. It authenticates the client in both cases.

// Forwarded is what one proxy tells another of a client that it forwards, beside the client's request.
type Forwarded struct {
	Address     origin.Address
	Peer        *origin.Address   // that its connection comes from, if that is not Address; nil otherwise
	Certificate *x509.Certificate // that it has presented and the listener verified; nil for none
}

const (
	// forwardBuffer is how much of each direction of a forwarded connection is in memory at most, in bytes.
	forwardBuffer = 16 << 10
	// forwardLinger is how long a direction of a forwarded connection goes on when the other has ended.
	forwardLinger = 5 * time.Second
	locationField = "Location"
)

// TakeForwarded takes over the connection of a client that another proxy forwards, on which the client's request comes next. It owns nc. The
// caller has made sure that it is a proxy of the fleet that says so.
func (g *Gate) TakeForwarded(nc net.Conn, via *Forwarded) {
	g.enterHandshake(nc, via.Address.Addr(), nil, via)
}

// elsewhere brings a client to the proxy that has its session. It returns false if that is this one, or if none answers. The error is a
// [*handshake.Refusal] that sends the client there, or turns it away. Otherwise it returns when the client's connection has ended.
//
// The client is not authenticated yet. So no other proxy is asked for a service that never had reconnect, or for an address from which authentication
// fails, and no more clients wait than may wait for authentication.
func (g *Gate) elsewhere(service *route.Service, nc net.Conn, req *handshake.Request, arrival *arrival, asked resume.Asked) (done bool, err error) {
	process, _ := resume.ProcessOf(asked.Token)
	if process == g.shared.Process || process == (record.Process{}) || g.options.Elsewhere == nil || arrival.via != nil || service.Reconnect == 0 && !service.HadReconnect {
		return false, nil
	}
	if refusal := g.refuseGuessing(service, arrival); refusal != nil {
		return false, refusal
	}
	if !arrival.opening.stepAside(service.Name, g.maxHandshakes()) {
		return false, route.Unavailable(crowded)
	}
	defer arrival.opening.comeBack() // unless it has left
	ctx, cancel := context.WithTimeout(g.closing, g.limits.Load().HandshakeTimeout)
	defer cancel()
	url, to, err := g.options.Elsewhere(ctx, process, &Forwarded{Address: arrival.Address, Peer: arrival.Peer, Certificate: arrival.certificate})
	if err == nil && url == "" {
		err = g.forward(service, nc, to, req, arrival, asked)
	}
	if err != nil || url == "" {
		if err != nil {
			g.shared.Log.Debug("the proxy of a client's session does not answer", slog.String("id", arrival.ID.String()), slog.Any("reason", err))
		}
		return err == nil, nil
	}
	g.redirected.Add(1)
	target := req.RequestURI
	if asked.Messages || !strings.HasPrefix(target, "/") { // what reads messages adds the token itself
		target = req.URL.RequestURI()
	}
	return false, &handshake.Refusal{
		Status: http.StatusTemporaryRedirect, Reason: "another proxy has the session",
		Header: http.Header{locationField: {strings.TrimSuffix(url, "/") + target}},
	}
}

// forward sends the client's request to the proxy at the other end of a connection, which it owns, and then copies bytes both ways until the
// client's connection ends. If that proxy does not answer, it returns an error, and leaves the client as it was.
func (g *Gate) forward(service *route.Service, nc, to net.Conn, req *handshake.Request, arrival *arrival, asked resume.Asked) error {
	defer to.Close()
	defer context.AfterFunc(g.closing, func() { reset(to) })() // that proxy may not answer, or take no more
	header := req.Header.Clone()
	asked.Restore(header)
	buf := make([]byte, forwardBuffer)
	_ = to.SetDeadline(time.Now().Add(g.authTimeout(service))) // it authenticates the client
	if _, err := to.Write(req.AppendTo(nil, header)); err != nil {
		return err
	}
	n, err := to.Read(buf)
	if err != nil {
		return err
	}
	defer nc.Close()
	arrival.opening.leave(true)
	_ = to.SetDeadline(time.Time{})
	defer g.endForwarding()
	g.beginForwarding(nc)
	ended := make(chan struct{})
	if !g.pending.Go(func() {
		defer close(ended)
		pass(to, nc, make([]byte, forwardBuffer))
	}) {
		reset(nc)
		return nil
	}
	if _, err := nc.Write(buf[:n]); err != nil {
		reset(to)
	}
	pass(nc, to, buf)
	<-ended
	return nil
}

// beginForwarding lifts the deadline of a client's handshake, unless the gate is closing: then its connection ends.
func (g *Gate) beginForwarding(nc net.Conn) {
	secure.Unfollow(nc)
	g.forwarded.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forwarding++
	if !g.closed {
		_ = nc.SetDeadline(time.Time{})
	}
}

func (g *Gate) endForwarding() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forwarding--
}

// pass copies what comes from one connection to another until it ends. If it ends in order, the other direction has some time left. Otherwise both
// connections break, so that no side takes it for an orderly end.
func pass(to, from net.Conn, buf []byte) {
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, failed := to.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		switch half, ok := to.(interface{ CloseWrite() error }); {
		case err == nil:
			continue
		case err == io.EOF && ok && half.CloseWrite() == nil:
			_ = to.SetReadDeadline(time.Now().Add(forwardLinger))
		default:
			reset(to)
			reset(from)
		}
		return
	}
}

// reset closes a connection without a word, so that the other side sees that it broke. Any goroutine may call it.
func reset(nc net.Conn) {
	nc = secure.Under(nc)
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = nc.Close()
}
