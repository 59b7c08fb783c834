package admission

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
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

// A page of another origin does not use its visitor's certificate, whether the service authenticates by it or only the listener asks for it.
func TestBrowsersCertificate(t *testing.T) {
	page := &http.Request{Host: "stt.example.org", Header: http.Header{"Origin": {"https://evil.example"}}, TLS: new(tls.ConnectionState)}
	for name, c := range map[string]struct {
		service route.Service
		refused bool
	}{
		"by certificate":    {route.Service{Auth: new(auth.Policy), Certificates: true}, true},
		"by something else": {route.Service{Auth: new(auth.Policy)}, false},
		"by the listener":   {route.Service{}, true},
	} {
		if got := refuseOrigin(&c.service, page, true) != nil; got != c.refused {
			t.Errorf("%s: refused: %v", name, got)
		}
		if refuseOrigin(&c.service, page, false) != nil {
			t.Errorf("%s: one without a certificate is refused", name)
		}
	}
}
