package session

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/origin"
)

// readRequest reads the request of a client whose connection came from a.client, and sets a.client to where the client comes from. The
// connection's deadline bounds it, a PROXY header included.
func (s *Server) readRequest(nc net.Conn, a *arrival) (*handshake.Request, error) {
	policy, peer, from := s.origin.Load(), a.client, io.Reader(nc)
	if may, must := policy.ProxyHeader(peer); may {
		source, found, behind, err := origin.ReadProxyHeader(nc)
		switch {
		case err != nil:
			return nil, badProxyHeader(err)
		case must && !found:
			return nil, &handshake.Refusal{Status: http.StatusBadRequest, Reason: "the PROXY header is missing, which connections from this address must begin with"}
		}
		a.comeFrom(source, peer)
		a.opening.comeFrom(source.Addr(), s.maxHandshakes())
		from = io.MultiReader(bytes.NewReader(behind), nc) // ReadRequest reads all of behind, since that is shorter than its buffer
	}
	req, err := handshake.ReadRequest(from, s.limits.Load().MaxHead)
	if err == nil {
		a.comeFrom(policy.Client(a.client, req.Header), peer)
	}
	return req, err
}

// badProxyHeader returns the answer to a connection whose PROXY header cannot be read. With an error that is no answer there is nobody to
// answer.
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
	if !client.IsValid() || client == a.client {
		return
	}
	a.client, a.peer = client, nil
	if client != peer {
		kept := peer // so that only this case allocates
		a.peer = &kept
	}
}

// field returns what a service may pass of a request's header. X-Forwarded-For has the client's address, and nothing that the client wrote.
func (a *arrival) field(req *handshake.Request) func(name string) []string {
	return func(name string) []string {
		if name == "X-Forwarded-For" && a.client.IsValid() {
			return []string{a.client.Addr().WithZone("").String()}
		}
		return req.Forwarded(name)
	}
}
