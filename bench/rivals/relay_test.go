//go:build linux

package rivals

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/bench/backends"
	"github.com/wsbouncer/wsbouncer/bench/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setUpAll sets all rivals up that need nothing to be installed.
func setUpAll(t *testing.T) (Options, []Rival) {
	t.Helper()
	root, err := child.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := Workers("")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Root: root, Cache: filepath.Join(root, ".cache", "bench"), Dir: t.TempDir(), Workers: chosen, Offline: true}
	o.WSBouncer = filepath.Join(o.Dir, "wsbouncer")
	if _, err := child.Output(t.Context(), root, "go", "build", "-o", o.WSBouncer, "./cmd/wsbouncer"); err != nil {
		t.Fatal(err)
	}
	return o, SetUp(t.Context(), o)
}

// TestRivalsRelay holds two sessions through each rival: it has to pass on text and binary messages, small and large, and to end
// when the client leaves.
func TestRivalsRelay(t *testing.T) {
	o, all := setUpAll(t)
	addresses, stop, err := backends.StartEcho(t.Context(), o.WSBouncer, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			if r.Missing != "" {
				t.Skip(r.Missing)
			}
			if r.Version == "" {
				t.Error("it has no version")
			}
			address := startIn(t, r, Task{Backends: addresses, Sessions: 10})
			for range 2 {
				talk(t, address)
			}
		})
	}
}

// TestRivalsTrustBackendsOverTLS holds a session through each rival that can, to a backend over TLS.
func TestRivalsTrustBackendsOverTLS(t *testing.T) {
	_, all := setUpAll(t)
	secure, certificate, stop, err := backends.StartSecureEcho(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			if r.Missing != "" || r.NoTLS != "" {
				t.Skip(r.Missing + r.NoTLS)
			}
			talk(t, startIn(t, r, Task{Backends: []string{secure}, Sessions: 10, CA: certificate}))
		})
	}
}

// TestRivalsServeTLS holds a session through each rival that is set up for it, with a client over TLS.
func TestRivalsServeTLS(t *testing.T) {
	o, all := setUpAll(t)
	addresses, stop, err := backends.StartEcho(t.Context(), o.WSBouncer, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	certificate, err := NewCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(certificate.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(content)
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			if r.Missing != "" || !r.Serves {
				t.Skip(r.Missing)
			}
			address := startIn(t, r, Task{Backends: addresses, Sessions: 10, Serves: certificate})
			talkTo(t, "wss://"+address+"/", &tls.Config{RootCAs: roots})
			conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if state := conn.ConnectionState(); state.Version != tls.VersionTLS13 || state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
				t.Errorf("%s, %s", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite))
			}
		})
	}
}

// startIn starts a rival for as long as the test runs, and returns its address.
func startIn(t *testing.T, r Rival, task Task) string {
	t.Helper()
	free, err := child.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	task.Listen, task.Admin, task.Dir = free[0], free[1], t.TempDir()
	p, address, err := r.Start(t.Context(), task)
	if err != nil && strings.Contains(err.Error(), ErrSkipped.Error()) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return address
}

// talk holds a session and compares the echoes.
func talk(t *testing.T, address string) {
	t.Helper()
	talkTo(t, "ws://"+address+"/", nil)
}

func talkTo(t *testing.T, url string, config *tls.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(4 << 20)
	for _, size := range []int{5, 1024, 70_000, 2 << 20} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			message := bytes.Repeat([]byte("a"), size)
			if err := c.Write(ctx, kind, message); err != nil {
				t.Fatal(err)
			}
			got, echo, err := c.Read(ctx)
			if err != nil || got != kind || !bytes.Equal(echo, message) {
				t.Fatalf("%v message of %d bytes came back as %v of %d bytes (%v)", kind, size, got, len(echo), err)
			}
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("the close was not answered: %v", err)
	}
}
