package relay

import (
	"io"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

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
