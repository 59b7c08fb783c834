//go:build linux

package backends

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// echoServer answers bytes with the same bytes.
func echoServer(t *testing.T) string {
	t.Helper()
	listener := wstest.Listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return listener.Addr().String()
}

// ask sends four bytes and returns how long their echo took.
func ask(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "ping" {
		t.Fatalf("the answer is %q (%v)", answer, err)
	}
	return time.Since(began)
}

func TestSecureEchoIsTrustedByItsFile(t *testing.T) {
	address, file, stop, err := StartSecureEcho(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	for _, name := range []string{"127.0.0.1", "localhost"} {
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		c.Close()
		t.Error("a client without the certificate trusts the server as well")
	}
}

func TestFarAwayDelaysEachWay(t *testing.T) {
	const eachWay = 20 * time.Millisecond
	address, stop, err := FarAway(echoServer(t), eachWay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if took := ask(t, c); took < 2*eachWay {
		t.Errorf("an echo took %v, want at least %v", took, 2*eachWay)
	}
	c.Close()
	stop()
}
