package sessiontest

import (
	"io"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Connect connects and sends some bytes.
func (r *Rig) Connect(bytes string) *wstest.Peer {
	r.T.Helper()
	return wstest.DialTLS(r.T, r.Address, r.TLS, bytes)
}

// TryConnect connects. The caller closes the connection. Any goroutine may call it.
func (r *Rig) TryConnect() (*wstest.Peer, error) {
	return wstest.TryDialTLS(r.T, r.Address, r.TLS)
}

// Request connects, sends some bytes and reads the head of the HTTP answer.
func (r *Rig) Request(bytes string) (*wstest.Peer, *http.Response) {
	r.T.Helper()
	p := r.Connect(bytes)
	return p, p.Response()
}

// Join begins a session when a connection is idle, with further lines in the header.
func (r *Rig) Join(header ...string) *wstest.Peer {
	r.T.Helper()
	r.Ready(1)
	p := r.Connect(wstest.UpgradeRequest("/v1/test", header...))
	p.ExpectUpgrade()
	return p
}

// Session begins a session and returns both ends, of a rig with one connection that was not used before.
func (r *Rig) Session(header ...string) (client, server *wstest.Peer) {
	r.T.Helper()
	client = r.Join(header...)
	return client, r.Accepted()
}

// Begin begins a session, and returns its client, the server that serves it, and which one that is. No other session may begin meanwhile.
func (r *Rig) Begin() (client, server *wstest.Peer, number int) {
	r.T.Helper()
	leases := make([]uint64, len(r.Backends))
	for i, b := range r.Backends {
		leases[i] = b.Stats().Totals.Leased
	}
	client = r.Join()
	for i, b := range r.Backends {
		if b.Stats().Totals.Leased > leases[i] {
			return client, r.Scripts[i].Take(), i
		}
	}
	r.T.Fatal("no server serves the session")
	return nil, nil, 0
}

// Other returns the connection to the other one of two servers.
func (r *Rig) Other(number int) *wstest.Peer {
	r.T.Helper()
	return r.Scripts[1-number].Take()
}

// Queued connects a client for whom there is no connection, and returns when it is in the queue.
func (r *Rig) Queued(header ...string) *wstest.Peer {
	r.T.Helper()
	before := r.Group.Queue().Totals.Queued
	p := r.Connect(wstest.UpgradeRequest("/v1/test", header...))
	wstest.Eventually(r.T, "the client is in the queue", func() bool { return r.Group.Queue().Totals.Queued == before+1 })
	return p
}

// ExpectUnavailable reads the answer to an upgrade request, which must be that there is no connection, for this reason.
func ExpectUnavailable(t testing.TB, p *wstest.Peer, reason string) {
	t.Helper()
	response := p.Response()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		t.Errorf("got %s, Retry-After %q; want 503 and 1", response.Status, response.Header.Get("Retry-After"))
	}
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != reason+"\n" {
		t.Errorf("the answer says %q, %v; want %q", body, err, reason)
	}
	p.ExpectEnd()
	_ = p.Close()
}
