package session

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

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
