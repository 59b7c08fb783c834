//go:build unix

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// overTLS are the libraries' clients that trust an authority, each with a version of TLS.
func overTLS(t *testing.T, address string, config *tls.Config) map[string]client {
	t.Helper()
	old := config.Clone()
	old.MaxVersion = tls.VersionTLS12
	ctx, cancel := context.WithTimeout(t.Context(), wstest.Timeout)
	t.Cleanup(cancel)
	c, _, err := websocket.Dial(ctx, "wss://"+address+"/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { _ = c.CloseNow() })
	dialer := gorilla.Dialer{TLSClientConfig: old}
	g, response, err := dialer.Dial("wss://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	_, _ = g.SetReadDeadline(wstest.Deadline()), g.SetWriteDeadline(wstest.Deadline())
	t.Cleanup(func() { _ = g.Close() })
	return map[string]client{"coder": &coderClient{ctx, c}, "gorilla": &gorillaClient{g}}
}

// presented returns the serial number of the certificate that an address presents.
func presented(t *testing.T, address string, config *tls.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Real clients reach the proxy over TLS. Its certificate is renewed while their sessions last; one that is bad changes nothing but the
// statistics. New settings come with SIGHUP.
func TestTLS(t *testing.T) {
	t.Parallel()
	a, devices := securetest.NewAuthority(t), securetest.NewAuthority(t)
	certificate, key := securetest.Files(t, a.Issue(nil, "127.0.0.1"))
	config := &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}
	secured := wstest.FreeAddress(t)
	sim := startSim(t)
	file := filepath.Join(t.TempDir(), "settings.yaml")
	settings := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings("log-level: info\n")
	p := startReady(t, "--settings", file, "--backend", sim.url, "--profile", "echo", "--connections", "3", "--tls-listen", secured, "--tls-cert", certificate, "--tls-key", key)
	clients := overTLS(t, secured, config)
	exchange := func() {
		t.Helper()
		for _, c := range clients {
			for _, size := range []int{0, 1, 125, 126, 16 << 10, 65536, 1 << 20} {
				roundTrip(t, c, gorilla.TextMessage, content(gorilla.TextMessage, size))
				roundTrip(t, c, gorilla.BinaryMessage, content(gorilla.BinaryMessage, size))
			}
		}
	}
	exchange()
	plain := dialCoder(t, p.url("/")) // the other listener
	roundTrip(t, plain, gorilla.TextMessage, []byte("hello"))

	first := presented(t, secured, config)
	next := a.Issue(nil, "127.0.0.1")
	securetest.WriteFiles(t, next, certificate, key)
	p.signal(syscall.SIGHUP)
	wstest.Eventually(t, "the next certificate is in force", func() bool { return presented(t, secured, config) != first })
	second := presented(t, secured, config)
	expired := a.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "127.0.0.1")
	securetest.WriteFiles(t, expired, certificate, key)
	p.signal(syscall.SIGHUP)
	wstest.Eventually(t, "the failure is shown", func() bool {
		_, stats := p.get("/api/v1/stats")
		_, metrics := p.get("/metrics")
		return strings.Contains(stats, "the certificate has expired at") && strings.Contains(metrics, "\nwsbouncer_tls_files_failed 1\n")
	})
	if got := presented(t, secured, config); got != second {
		t.Error("another certificate is presented than before the bad one")
	}
	exchange()
	securetest.WriteFiles(t, next, certificate, key)
	settings("tls-client-ca: " + devices.File() + "\n")
	p.signal(syscall.SIGHUP)
	device := config.Clone()
	device.Certificates = []tls.Certificate{devices.Issue(nil, "device-7")}
	wstest.Eventually(t, "clients must have a certificate", func() bool { return handshakeFails(secured, config) })
	if handshakeFails(secured, device) {
		t.Error("a client with a good certificate is refused")
	}
	exchange()
	for library, c := range clients {
		if err := c.close(); err != nil {
			t.Errorf("%s: closing: %v", library, err)
		}
	}
	_ = plain.close()
	p.settle()
}

// handshakeFails reports whether a listener refuses a client. With TLS 1.3, the client learns that when it reads.
func handshakeFails(address string, config *tls.Config) bool {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return true
	}
	defer conn.Close()
	_ = conn.SetDeadline(wstest.Deadline())
	_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	_, err = conn.Read(make([]byte, 1))
	return err != nil
}
