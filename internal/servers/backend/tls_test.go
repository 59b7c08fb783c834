package backend

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// A connection does what it does without TLS. newRig sees by the name of a subtest that its server is to be reached by TLS.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"Fill": TestFill, "CapHoldsWhileConnectionsAreReplaced": TestCapHoldsWhileConnectionsAreReplaced,
		"ServerEndsIdleConnection": TestServerEndsIdleConnection, "CloseIsAnsweredWithEnd": TestCloseIsAnsweredWithEnd,
		"ServerNeverCloses": TestServerNeverCloses, "DataWhileIdle": TestDataWhileIdle, "GreetingIsKept": TestGreetingIsKept,
		"PingsWhileWaiting": TestPingsWhileWaiting, "Move": TestMove, "LeasedConnectionIsLost": TestLeasedConnectionIsLost,
		"LeasesAlwaysEnd": TestLeasesAlwaysEnd, "PingsAreAnswered": TestPingsAreAnswered, "SilentWhileIdle": TestSilentWhileIdle,
		"SilentInUse": TestSilentInUse, "ResetDropsLateAnswers": TestResetDropsLateAnswers, "ResetFails": TestResetFails,
		"ResetMoves": TestResetMoves, "ReasonsForRetiring": TestReasonsForRetiring, "Close": TestClose,
		"CloseWhileDialing": TestCloseWhileDialing, "CloseDuringLongDial": TestCloseDuringLongDial,
		"ProbeUpgrade": TestProbeUpgrade, "ProbeUpgradeFails": TestProbeUpgradeFails, "ProbeUpgradeIsNotClosed": TestProbeUpgradeIsNotClosed,
	} {
		t.Run(name, test)
	}
}

// Why a server cannot be reached by TLS is what people see.
func TestReasonsOverTLS(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	expired := authority.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "127.0.0.1")
	missing := filepath.Join(t.TempDir(), "ca.pem")
	certificate, key := securetest.Files(t, securetest.NewAuthority(t).Issue(nil))
	for name, c := range map[string]struct {
		settings func(own secure.Settings) secure.Settings
		server   func(*tls.Config)
		want     []string
	}{
		"wrong authority": {settings: func(secure.Settings) secure.Settings { return secure.Settings{CA: authority.File()} }, want: []string{"TLS handshake", "unknown authority"}},
		"wrong name": {settings: func(own secure.Settings) secure.Settings {
			own.ServerName = "gpu-1.internal"
			return own
		}, want: []string{"TLS handshake", "gpu-1.internal"}},
		"expired": {
			settings: func(secure.Settings) secure.Settings { return secure.Settings{CA: authority.File()} },
			server:   func(c *tls.Config) { c.Certificates = []tls.Certificate{expired} }, want: []string{"TLS handshake", "expired"},
		},
		"no client certificate":            {server: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, want: []string{"certificate required"}},
		"no client certificate in TLS 1.2": {server: func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 }, want: []string{"TLS handshake", "remote error"}},
		"client certificate of a stranger": {
			settings: func(own secure.Settings) secure.Settings {
				own.Certificate, own.Key = certificate, key
				return own
			},
			server: func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, authority.Pool() }, want: []string{"remote error", "certificate"},
		},
		"no file": {settings: func(secure.Settings) secure.Settings { return secure.Settings{CA: missing} }, want: []string{"tls-ca", missing}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigOverTLS(t, "echo", func(o *Options, s *wstest.Server) {
				if c.server != nil {
					c.server(s.TLS)
				}
				if c.settings != nil {
					o.Target.SetTLS(c.settings(secure.Settings{CA: s.CA}))
				}
			})
			wstest.Eventually(t, "a failure", func() bool { return r.Stats().Totals.DialFailed > 0 && r.Health().Reason != notDialed })
			h := r.Health()
			for _, word := range c.want {
				if !strings.Contains(h.Reason, word) {
					t.Errorf("reason %q does not say %q", h.Reason, word)
				}
			}
			if s := r.Stats(); h.Reachable || s.Totals.Dialed != 0 {
				t.Errorf("health %+v, stats %+v", h, s)
			}
		})
	}
}

// A client certificate opens the door, and a file that is put right is noticed without anybody's help.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	clients := securetest.NewAuthority(t)
	good := clients.Issue(nil)
	certificate, key := securetest.Files(t, securetest.NewAuthority(t).Issue(nil))
	r := newRigOverTLS(t, "echo", func(o *Options, s *wstest.Server) {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
		o.Target.SetTLS(secure.Settings{CA: s.CA, Certificate: certificate, Key: key})
		o.CircuitFailures = 1000
	})
	wstest.Eventually(t, "a failure", func() bool { return r.Stats().Totals.DialFailed > 0 })
	right, rightKey := securetest.Files(t, good)
	for from, to := range map[string]string{right: certificate, rightKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	r.ready(1)
}

// Headers are resolved for each dial. One that cannot be is why there is no connection.
func TestHeaders(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "token")
	tokens := make(chan string, 100)
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.CircuitFailures = 1000
		o.Target.Resolve = func() (http.Header, error) {
			token, err := os.ReadFile(secret)
			if err != nil {
				return nil, errors.New("Authorization: file:" + secret + ": no such file")
			}
			return http.Header{"Authorization": {"Bearer " + string(token)}}, nil
		}
		answer := s.Answer
		s.Answer = func(nc net.Conn, req *handshake.Request) bool {
			tokens <- req.Header.Get("Authorization")
			return answer(nc, req)
		}
	})
	wstest.Eventually(t, "a failure", func() bool { return r.Health().Reason != notDialed })
	if h := r.Health(); !strings.Contains(h.Reason, "header: Authorization: file:"+secret) {
		t.Errorf("reason %q", h.Reason)
	}
	written := secret + ".new" // a dial must not find the file empty
	if err := errors.Join(os.WriteFile(written, []byte("one"), 0o600), os.Rename(written, secret)); err != nil {
		t.Fatal(err)
	}
	r.ready(1)
	if token := <-tokens; token != "Bearer one" {
		t.Errorf("the server got %q", token)
	}
}

// A probe of the backend's host by https trusts whom the backend's settings trust, and no other host is asked so.
func TestProbeHTTPS(t *testing.T) {
	t.Parallel()
	authority := securetest.NewAuthority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS, _ = authority.Loopback()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	target, err := handshake.ParseTarget("wss://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	target.SetTLS(secure.Settings{CA: authority.File()})
	if err := probeHTTP(wstest.Context(t), parse(t, server.URL), target); err != nil {
		t.Errorf("the backend's host: %v", err)
	}
	fails := func(what, url, want string) {
		t.Helper()
		if err := probeHTTP(wstest.Context(t), parse(t, url), target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	target.SetTLS(secure.Settings{CA: filepath.Join(t.TempDir(), "missing.pem")})
	fails("a file that is missing", server.URL, "tls-ca")
	if target, err = handshake.ParseTarget("ws://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	fails("a backend without TLS", server.URL, "unknown authority")
}

// What a server says right behind its answer, in the same record of TLS, is neither lost nor doubled.
func TestGreetingInTheAnswersRecord(t *testing.T) {
	t.Parallel()
	greeting := bytes.Repeat(wstest.ServerFrame(true, frame.Text, "hello"), 2000)
	r := newRigOverTLS(t, "one-shot", func(_ *Options, s *wstest.Server) { s.Answer = wstest.Accept("", greeting...) })
	s := r.use()
	s.expectSaid(greeting)
	s.end(0)
}
