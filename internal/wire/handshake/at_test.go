package handshake

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// A target at an address connects to it, and says and verifies the URL's name.
func TestAt(t *testing.T) {
	hosts := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.Host
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	address := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "https://"))
	target := parsed(t, "wss://example.com:1/asr") // httptest's certificate is for example.com
	authority := filepath.Join(t.TempDir(), "ca.pem")
	securetest.WritePEM(t, authority, "CERTIFICATE", server.Certificate().Raw)
	target.SetTLS(secure.Settings{CA: authority})
	at := target.At(address)
	if _, err := at.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Fatalf("dialed: %v", err)
	}
	if host := <-hosts; host != "example.com:1" {
		t.Errorf("the server was asked for %s", host)
	}
}

func TestEndpoint(t *testing.T) {
	target := parsed(t, "ws://Stt.svc:2700/asr?x=1")
	for _, c := range []struct {
		at, address, endpoint, server string
	}{
		{"10.0.0.5:2701", "Stt.svc:2701", "10.0.0.5:2701", "ws://10.0.0.5:2701/asr?x=1"},
		{"[fd00::5]:2700", "Stt.svc:2700", "[fd00::5]:2700", "ws://[fd00::5]:2700/asr?x=1"},
	} {
		at := target.At(netip.MustParseAddrPort(c.at))
		if at.Address() != c.address || at.Endpoint(at.Address()) != c.endpoint || at.Server() != c.server || at.URL != target.URL {
			t.Errorf("%s: %s, %s, %s", c.at, at.Address(), at.Endpoint(at.Address()), at.Server())
		}
		host, _, _ := net.SplitHostPort(c.endpoint)
		if e := at.Endpoint("stt.SVC:8000"); e != net.JoinHostPort(host, "8000") {
			t.Errorf("another port of the host is at %s", e)
		}
		if e := at.Endpoint("monitor:80"); e != "monitor:80" {
			t.Errorf("another host is at %s", e)
		}
	}
	if target.Endpoint("stt.svc:1") != "stt.svc:1" || target.Server() != target.URL || target.Address() != "Stt.svc:2700" {
		t.Error("the target itself has changed")
	}
}
