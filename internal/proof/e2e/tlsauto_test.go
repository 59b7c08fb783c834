//go:build unix

package e2e

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/acmetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The proxy gets a certificate from a real authority, which checks it on the port for clients, and has it at once after a restart.
func TestTLSAuto(t *testing.T) {
	t.Parallel()
	const name = "stt.example.com"
	secured := wstest.FreeAddress(t)
	at, err := net.ResolveTCPAddr("tcp", secured)
	if err != nil {
		t.Fatal(err)
	}
	authority := acmetest.Start(t, at.Port)
	authority.DNS.Set(name+".", "127.0.0.1")
	sim := startSim(t)
	directory := t.TempDir()
	flags := []string{
		"--backend", sim.url, "--profile", "echo", "--state-directory", directory, "--tls-listen", secured, "--tls-auto", name,
		"--tls-auto-directory", authority.Directory, "--tls-auto-ca", authority.CA,
	}
	for range 2 {
		p := startReady(t, flags...)
		wstest.Eventually(t, "the certificate is in force", func() bool { return issuer(secured, name) != "" })
		if got := issuer(secured, name); !strings.HasPrefix(got, "Pebble") {
			t.Errorf("the certificate is from %q", got)
		}
		if _, body := p.get("/api/v1/stats"); !strings.Contains(body, `"file": "tls-auto:stt.example.com"`) || !strings.Contains(body, `"state": "valid"`) {
			t.Errorf("the statistics do not have the certificate: %s", body)
		}
		if got := issuer(secured, "other.example.com"); got != "" {
			t.Errorf("another name has a certificate from %q", got)
		}
		p.stop()
	}
	if keys, err := filepath.Glob(filepath.Join(directory, "acme", "certificates", "*", name, name+".key")); err != nil || len(keys) != 1 {
		t.Errorf("the keys are %v, %v", keys, err)
	}
}

// issuer returns the name of the authority that has issued the certificate for a name; empty if there is none.
func issuer(address, name string) string {
	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, InsecureSkipVerify: true}) // Pebble makes a new root each time
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Issuer.CommonName
}
