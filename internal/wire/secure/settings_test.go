package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/ground/timedread"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err = net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	_ = far.SetDeadline(time.Now().Add(20 * time.Second))
	return near, far
}

// connect has a client with the source's configuration, and a server with another, shake hands and exchange one byte. It returns
// the client's view of the connection.
func connect(t *testing.T, source *Source, server *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	near, far := pair(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer far.Close()
		conn := Server(far, server, nil)
		_, _ = conn.Read(make([]byte, 1))
		_, _ = conn.Write([]byte("x"))
		_, _ = conn.Read(make([]byte, 1))
	}()
	defer func() { _ = near.Close(); <-ended }()
	config, err := source.Config()
	if err != nil {
		return tls.ConnectionState{}, err
	}
	conn, err := Client(context.Background(), near, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	_, _ = conn.Write([]byte("x"))
	_, err = conn.Read(make([]byte, 1)) // with TLS 1.3, the server's verdict on a client's certificate comes here
	return conn.ConnectionState(), err
}

func TestSourceConnects(t *testing.T) {
	authority, clients := securetest.NewAuthority(t), securetest.NewAuthority(t)
	certificate, key := securetest.Files(t, clients.Issue(nil))
	server := &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(nil, "gpu-1.internal", "127.0.0.1")}, ClientCAs: clients.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	for _, name := range []string{"gpu-1.internal", "127.0.0.1"} {
		source := NewSource(Settings{CA: authority.File(), ServerName: name, Certificate: certificate, Key: key})
		state, err := connect(t, source, server)
		if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "http/1.1" || state.DidResume {
			t.Errorf("%s: %v, version %x, protocol %q, resumed %v", name, err, state.Version, state.NegotiatedProtocol, state.DidResume)
		}
		if state, err = connect(t, source, server); err != nil || !state.DidResume {
			t.Errorf("%s: the second connection: %v, resumed %v", name, err, state.DidResume)
		}
	}
	old := server.Clone()
	old.MaxVersion = tls.VersionTLS12
	source := NewSource(Settings{CA: authority.File(), ServerName: "127.0.0.1", Certificate: certificate, Key: key})
	if state, err := connect(t, source, old); err != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %v, version %x", err, state.Version)
	}
	if _, err := connect(t, NewSource(Settings{ServerName: "x", InsecureSkipVerify: true, Certificate: certificate, Key: key}), server); err != nil {
		t.Errorf("a server that need not be verified: %v", err)
	}
}

// Each reason for which a server cannot be talked to is named.
func TestSourceRefuses(t *testing.T) {
	authority, other := securetest.NewAuthority(t), securetest.NewAuthority(t)
	ca := authority.File()
	good := authority.Issue(nil, "127.0.0.1")
	expired := authority.Issue(func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}, "127.0.0.1")
	certificate, key := securetest.Files(t, other.Issue(nil))
	for name, c := range map[string]struct {
		settings Settings
		server   *tls.Config
		want     string
	}{
		"unknown authority":       {Settings{CA: other.File()}, &tls.Config{}, "signed by unknown authority"},
		"none of the system's":    {Settings{}, &tls.Config{}, "unknown authority"},
		"other name":              {Settings{CA: ca, ServerName: "gpu-2"}, &tls.Config{}, "certificate is not valid for any names, but wanted to match gpu-2"},
		"expired":                 {Settings{CA: ca}, &tls.Config{Certificates: []tls.Certificate{expired}}, "expired"},
		"client's is missing":     {Settings{CA: ca}, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, "certificate required"},
		"client's is unknown":     {Settings{CA: ca, Certificate: certificate, Key: key}, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}, "certificate"},
		"old version":             {Settings{CA: ca}, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, "protocol version"},
		"missing client's in 1.2": {Settings{CA: ca}, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}, "remote error: tls: handshake failure"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.settings.ServerName == "" {
				c.settings.ServerName = "127.0.0.1"
			}
			if c.server.Certificates == nil {
				c.server.Certificates = []tls.Certificate{good}
			}
			if _, err := connect(t, NewSource(c.settings), c.server); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// Errors about files name the field, the file and the reason.
func TestSourceFiles(t *testing.T) {
	authority := securetest.NewAuthority(t)
	ca := authority.File()
	certificate, key := securetest.Files(t, authority.Issue(nil))
	_, otherKey := securetest.Files(t, authority.Issue(nil))
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing, text := filepath.Join(directory, "missing.pem"), file("text.pem", "hello")
	broken := file("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	huge := file("huge.pem", strings.Repeat("x", maxFile+1))
	for _, c := range []struct {
		settings Settings
		want     []string
	}{
		{Settings{CA: missing}, []string{"tls-ca: ", missing, "no such file"}},
		{Settings{CA: directory}, []string{"tls-ca: ", directory, "not a regular file"}},
		{Settings{CA: text}, []string{"tls-ca: ", text, "no certificate in PEM form"}},
		{Settings{CA: broken}, []string{"tls-ca: ", broken, "certificate 1: "}},
		{Settings{CA: huge}, []string{"tls-ca: ", huge, "larger than 1048576 bytes"}},
		{Settings{CA: key}, []string{"tls-ca: ", key, "no certificate in PEM form"}},
		{Settings{CA: ca, Certificate: missing, Key: key}, []string{"tls-certificate: ", missing, "no such file"}},
		{Settings{CA: ca, Certificate: certificate, Key: missing}, []string{"tls-key: ", missing, "no such file"}},
		{Settings{Certificate: certificate, Key: otherKey}, []string{"tls-certificate " + certificate, "tls-key " + otherKey, "private key does not match public key"}},
		{Settings{Certificate: text, Key: key}, []string{"tls-certificate " + text, "tls-key " + key, "PEM"}},
		{Settings{Certificate: certificate}, []string{"tls-key is missing", certificate}},
		{Settings{Key: key}, []string{"tls-certificate is missing", key}},
	} {
		c.settings.ServerName = "127.0.0.1"
		config, err := NewSource(c.settings).Config()
		if err == nil || config != nil {
			t.Errorf("%+v: no error", c.settings)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not say %q", err, want)
			}
		}
	}
}

// A file that is replaced counts from the next connection on, and nothing of what was verified by the old one does.
func TestSourceRotation(t *testing.T) {
	first, second := securetest.NewAuthority(t), securetest.NewAuthority(t)
	ca := first.File()
	source := NewSource(Settings{CA: ca, ServerName: "127.0.0.1"})
	server := &tls.Config{Certificates: []tls.Certificate{first.Issue(nil, "127.0.0.1")}}
	for range 2 {
		if _, err := connect(t, source, server); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := source.Config()
	if again, _ := source.Config(); again != before {
		t.Error("the configuration is made anew though no file has changed")
	}
	content, err := os.ReadFile(second.File())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Config(); err == nil {
		t.Error("the file is not read again")
	}
	if err := os.WriteFile(ca, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, source, server); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of the authority that is no longer trusted: %v", err)
	}
	server = &tls.Config{Certificates: []tls.Certificate{second.Issue(nil, "127.0.0.1")}}
	if state, err := connect(t, source, server); err != nil || state.DidResume {
		t.Errorf("a server of the new one: %v, resumed %v", err, state.DidResume)
	}
}

// A file on a mount that hangs holds up a dial no longer than others may take.
func TestSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/etc/wsbouncer/hangs.pem"
		mount := make(chan struct{})
		go func() { _, _ = timedread.Do(path, func() (any, error) { <-mount; return nil, nil }) }()
		synctest.Wait()
		if _, err := NewSource(Settings{CA: path}).Config(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		close(mount)
	})
}

// A server that does not speak TLS is distinguished from one whose TLS fails, and a silent one blocks no other dial.
func TestClientOfOtherServers(t *testing.T) {
	config, err := NewSource(Settings{ServerName: "127.0.0.1"}).Config()
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	_, _ = far.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	if _, err := Client(context.Background(), near, config); err == nil || !strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("%v", err)
	}
	near, far = pair(t)
	_ = far.Close()
	if _, err := Client(context.Background(), near, config); err == nil || !strings.HasPrefix(err.Error(), "TLS handshake: ") {
		t.Errorf("%v", err)
	}
	near, _ = pair(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := Client(ctx, near, config); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
