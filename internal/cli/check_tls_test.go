package cli

import (
	"crypto/x509"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// check reads the certificates as serve does: what is bad is an error, and what is likely to be wrong a warning.
func TestCheckTLS(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	a := securetest.NewAuthority(t)
	database := write(t, "c.yaml", served)
	certificate, key := securetest.Files(t, a.Issue(nil, "stt.example.org"))
	flags := []string{"check", "--database", database, "--state-directory", "/s", "--tls-listen", "127.0.0.1:8443", "--tls-cert", certificate, "--tls-key", key}
	status, out, messages := run(flags...)
	want := "Warning: no certificate of tls-cert is for mt.example.org, which services have as host"
	if status != 0 || strings.Count(messages, "Warning:") != 1 || !strings.HasPrefix(messages, want) || !strings.Contains(out, "127.0.0.1:8443 (TLS)\n") || strings.Contains(out, ":8080") {
		t.Errorf("status %d, %q, %s", status, messages, out)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	soon, soonKey := securetest.Files(t, a.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-80*24*time.Hour), time.Now().Add(9*24*time.Hour+time.Hour)
	}, "*.example.org"))
	status, _, messages = run(append(flags, "--tls-cert", soon, "--tls-key", soonKey)...)
	for _, want := range []string{"tls-key " + key + ": more users than its owner may use the private key (mode 0644)", "in 9 days: renew it"} {
		if status != 0 || strings.Count(messages, "Warning:") != 2 || !strings.Contains(messages, want) {
			t.Errorf("status %d, %q; want %q", status, messages, want)
		}
	}
	for _, backend := range [][]string{{"--database", database}, {"--backend", "ws://127.0.0.1:1"}} {
		status, _, messages = run(append([]string{"check", "--tls-listen", "127.0.0.1:8443", "--tls-cert", certificate, "--tls-key", soonKey}, backend...)...)
		if status != 1 || !strings.Contains(messages, "Error: tls-cert "+certificate+" with tls-key "+soonKey+": tls: private key does not match public key") {
			t.Errorf("status %d, %q", status, messages)
		}
	}
}

// A certificate that has expired is a warning, or an error with --strict.
func TestCheckExpiredCertificate(t *testing.T) {
	a := securetest.NewAuthority(t)
	certificate, key := securetest.Files(t, a.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "stt.example.org"))
	flags := []string{"check", "--backend", "ws://127.0.0.1:1", "--tls-listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key}
	want := "Warning: tls-cert " + certificate + ": the certificate has expired at 2"
	if status, _, messages := run(flags...); status != 0 || !strings.Contains(messages, want) {
		t.Errorf("status %d, %q", status, messages)
	}
	if status, _, messages := run(append(flags, "--strict")...); status != 1 || !strings.Contains(messages, want) || !strings.Contains(messages, ", and --strict allows none") {
		t.Errorf("strict: status %d, %q", status, messages)
	}
}

// serve does not start with a certificate that it cannot use.
func TestServeBadCertificate(t *testing.T) {
	a := securetest.NewAuthority(t)
	certificate, key := securetest.Files(t, a.Issue(func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}, "stt.example.org"))
	status, _, messages := run("serve", "--backend", "ws://127.0.0.1:1", "--tls-listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key)
	if status != 1 || !strings.Contains(messages, "Error: tls-cert "+certificate+": the certificate is not for servers") {
		t.Errorf("status %d, %q", status, messages)
	}
}
