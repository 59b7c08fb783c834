package app

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

// The admin API speaks TLS with a certificate from files, and asks for the token as without TLS.
func TestAdminTLS(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	s := DefaultSettings()
	s.Listen, s.Admin, s.Database = []string{"127.0.0.1:0"}, "127.0.0.1:0", ":memory:"
	s.AdminTLSCert, s.AdminTLSKey = securetest.Files(t, authority.Issue(nil, "127.0.0.1"))
	s.Tokens, s.AdminToken = settings.Tokens{Token: "s3cret", ReaderToken: "r3ader"}, "env:X"
	proxy, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Shutdown()
	at := proxy.AdminAddress().String()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	for token, want := range map[string]int{"": 401, "wrong": 401, "r3ader": 200, "s3cret": 200} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/api/v1/stats", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want || response.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%q: %s", token, response.Status)
		}
	}
	if old, err := tls.Dial("tcp", at, &tls.Config{RootCAs: authority.Pool(), MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		_ = old.Close()
		t.Error("it speaks TLS 1.1")
	}
	plain, err := http.Get("http://" + at + "/healthz")
	if err != nil || plain.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", plain, err)
	} else {
		_ = plain.Body.Close()
	}
}

// A certificate that no client could accept ends the start, with the setting's name.
func TestBadAdminTLS(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	expired, key := securetest.Files(t, authority.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "127.0.0.1"))
	_, otherKey := securetest.Files(t, authority.Issue(nil, "127.0.0.1"))
	for says, files := range map[string][2]string{
		"admin-tls-cert " + expired + ": the certificate is not for servers":  {expired, key},
		"admin-tls-cert " + expired + " with tls-key " + otherKey + ": tls: ": {expired, otherKey},
		"admin-tls-key: stat /no/such/key":                                    {expired, "/no/such/key"},
	} {
		s := DefaultSettings()
		s.Listen, s.Admin, s.Database = []string{"127.0.0.1:0"}, "127.0.0.1:0", ":memory:"
		s.AdminTLSCert, s.AdminTLSKey = files[0], files[1]
		_, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
		if _, err := s.CheckTLS(nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("check: got %v, want %s", err, says)
		}
	}
}

// A certificate of the admin API that has expired is a problem like one that clients see, and names the listener.
func TestExpiredAdminCertificate(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	s := DefaultSettings()
	s.Listen, s.Admin, s.Database = []string{"127.0.0.1:0"}, "127.0.0.1:0", ":memory:"
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	}
	s.AdminTLSCert, s.AdminTLSKey = securetest.Files(t, authority.Issue(past, "127.0.0.1"))
	proxy, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Shutdown()
	stats := proxy.Stats()
	if stats.TLS == nil || len(stats.TLS.Certificates) != 1 || stats.TLS.Certificates[0].Listener != api.ListenerAdmin || stats.TLS.Certificates[0].State != api.CertificateExpired {
		t.Fatalf("%+v", stats.TLS)
	}
	found := diagnosis.Find(&diagnosis.Facts{Now: time.Now(), Stats: &stats})
	i := slices.IndexFunc(found, func(p api.Problem) bool { return p.Kind == string(diagnosis.CertificateExpired) })
	if i < 0 || found[i].What != "certificate "+s.AdminTLSCert+" of the admin API" {
		t.Errorf("%+v", found)
	}
	// Without an admin socket, commands on this machine need the address.
	if socket, commands := proxy.waysIn(); socket != "" || commands != "https://"+proxy.AdminAddress().String() {
		t.Errorf("commands use %q and %q", socket, commands)
	}
}
