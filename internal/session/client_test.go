package session

import (
	"io"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// connect connects and sends some bytes.
func (r *rig) connect(bytes string) *wstest.Peer {
	r.t.Helper()
	if r.tls != nil {
		return wstest.DialTLS(r.t, r.address, r.tls, bytes)
	}
	return wstest.Dial(r.t, r.address, bytes)
}

// tryConnect connects. The caller closes the connection. Any goroutine may call it.
func (r *rig) tryConnect() (*wstest.Peer, error) {
	if r.tls != nil {
		return wstest.TryDialTLS(r.t, r.address, r.tls)
	}
	return wstest.TryDial(r.t, r.address)
}

// request connects, sends some bytes and reads the head of the HTTP answer.
func (r *rig) request(bytes string) (*wstest.Peer, *http.Response) {
	r.t.Helper()
	p := r.connect(bytes)
	return p, p.Response()
}

// join begins a session when a connection is idle, with further lines in the header.
func (r *rig) join(header ...string) *wstest.Peer {
	r.t.Helper()
	r.ready(1)
	p := r.connect(wstest.UpgradeRequest("/v1/test", header...))
	p.ExpectUpgrade()
	return p
}

// expectUnavailable reads the answer to an upgrade request, which must be that there is no connection, for this reason.
func expectUnavailable(t testing.TB, p *wstest.Peer, reason string) {
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
