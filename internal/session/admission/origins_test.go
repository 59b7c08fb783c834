package admission

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

func TestOwnOrigin(t *testing.T) {
	for _, c := range []struct {
		origin, host string
		want         bool
	}{
		{"https://stt.example.org", "stt.example.org", true},
		{"https://stt.example.org", "STT.example.org:443", true},
		{"https://stt.example.org:443", "stt.example.org", true},
		{"https://stt.example.org:8443", "stt.example.org:8443", true},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", true},
		{"http://[::1]:8080", "[::1]:8080", true},
		{"http://[::1]", "[::1]", true},
		{"https://example.org", "stt.example.org", false},
		{"https://stt.example.org:8443", "stt.example.org", false},
		{"https://stt.example.org", "stt.example.org:80", false},
		{"https://stt.example.org.evil.example", "stt.example.org", false},
		{"https://evil.example/stt.example.org", "stt.example.org", false},
		{"null", "null", false},
		{"null", "", false},
		{"://", "", false},
		{"file://", "", false},
		{"file://stt.example.org", "stt.example.org", false},
	} {
		if got := isOwnOrigin(c.origin, c.host); got != c.want {
			t.Errorf("%q at %q: %v", c.origin, c.host, got)
		}
	}
}

// A page of another origin does not use its visitor's certificate.
func TestBrowsersCertificate(t *testing.T) {
	s := &route.Service{Certificates: true}
	page := &http.Request{Host: "stt.example.org", Header: http.Header{"Origin": {"https://evil.example"}}, TLS: new(tls.ConnectionState)}
	if refuseOrigin(s, page, true) == nil || refuseOrigin(s, page, false) != nil {
		t.Error("a page of another origin uses its visitor's certificate, or one without is refused")
	}
}
