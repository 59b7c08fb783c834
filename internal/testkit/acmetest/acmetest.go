// Package acmetest runs Pebble, the test authority of Let's Encrypt, for tests. It is a tool of the Go module in the folder tools.
package acmetest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/dnstest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Authority is a running Pebble.
type Authority struct {
	Directory string         // URL
	CA        string         // file with the authority that vouches for the directory's server
	Roots     *x509.CertPool // the same
	// DNS answers its questions about names.
	DNS *dnstest.Server
}

// Start starts an authority that connects to names at a port of loopback, where DNS says so. It ends with the test, which is skipped if
// Pebble cannot be built here. port is that of the TLS listener that the authority checks.
func Start(t testing.TB, port int) *Authority {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	pebble, err := exec.Command("go", "-C", filepath.Join(filepath.Dir(here), "../../../tools"), "tool", "-n", "pebble").Output()
	if err != nil {
		t.Skipf("Pebble cannot be built here: %v", err)
	}
	vouches := securetest.NewAuthority(t)
	certificate, key := securetest.Files(t, vouches.Issue(nil, "127.0.0.1"))
	a := &Authority{CA: vouches.File(), Roots: vouches.Pool(), DNS: dnstest.Start(t)}
	for range 3 { // another process may take the address before Pebble does
		if a.run(t, strings.TrimSpace(string(pebble)), wstest.FreeAddress(t), certificate, key, port) {
			return a
		}
	}
	t.Fatal("Pebble does not start")
	return nil
}

// run starts Pebble. It returns false if Pebble ends at once.
func (a *Authority) run(t testing.TB, pebble, address, certificate, key string, port int) bool {
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": address, "certificate": certificate, "privateKey": key, "tlsPort": port, "httpPort": port, "keyAlgorithm": "ecdsa",
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pebble.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(pebble, "-config", file, "-dnsserver", a.DNS.Address())
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	var log logtest.Text
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("Pebble:\n%s", log.String())
		}
	})
	a.Directory = "https://" + address + "/dir"
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	answers := false
	wstest.Eventually(t, "Pebble answers or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		response, err := client.Get(a.Directory)
		if err == nil {
			_ = response.Body.Close()
			answers = true
		}
		return answers
	})
	return answers
}
