//go:build linux && !portableloop

package loop

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// tlsfuzzerScripts are those of tlsfuzzer that send something unusual after the handshake, with their arguments: -n is how many conversations are
// drawn from them, and -x names what is expected to end otherwise here. The rest of tlsfuzzer is about the handshake, which is that of crypto/tls.
var tlsfuzzerScripts = [][]string{
	// New keys that were asked for come with the next data (RFC 8446, section 4.6.3), and the first conversation waits for them before. The second
	// asks more often than a peer may that sends no data.
	{
		"test-tls13-keyupdate", "--coalescing", "-n", "100",
		"-x", "app data split, conversation with KeyUpdate msg", "-x", "multiple KeyUpdate messages",
	},
	// crypto/tls finds the wrong sum of a Finished that is too long before its length.
	{
		"test-tls13-record-layer-limits",
		"-x", "max size payload (2**14) of Finished msg, with 16348 bytes of left padding, cipher TLS_AES_128_GCM_SHA256",
		"-x", "max size payload (2**14) of Finished msg, with 16348 bytes of left padding, cipher TLS_CHACHA20_POLY1305_SHA256",
	},
	{"test-tls13-record-padding", "-n", "20"},
	{"test-tls13-zero-content-type"},
	// crypto/tls sends no alert if a connection begins with data.
	{
		"test-tls13-zero-length-data",
		"-x", "zero-length app data interleaved in handshake", "-x", "zero-len app data with padding interleaved in handshake",
		"-x", "zero-len app data with large padding interleaved in handshake",
	},
	{"test-tls13-lengths", "-n", "10"},
	{"test-tls13-empty-alert"},
	{"test-tls13-ccs"},
	{"test-tls13-conversation"},
	// With TLS 1.2. (Most scripts of it need suites that Go does not offer, or that are left to crypto/tls.)
	{"test-zero-length-data", "-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
	{"test-lengths", "-n", "10", "-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
	{"test-fuzzed-ciphertext", "-n", "60", "-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
	{"test-aes-gcm-nonces", "-d"},
	{"test-chacha20", "-n", "60", "--extra-exts"},
	{"test-conversation", "-C", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
}

// The scripts of tlsfuzzer pass against a server whose records are those of package tlsrecord once the handshake is complete. TLSFUZZER is a directory with
// tlsfuzzer, and a virtual environment of Python for it: see `make tls-conformance`.
func TestTLSFuzzer(t *testing.T) {
	directory := os.Getenv("TLSFUZZER")
	if directory == "" {
		t.Skip("TLSFUZZER is not set: see make tls-conformance")
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	// As tlsfuzzer's clients want it, some of which are old.
	config := secure.ForServer(&tls.Config{
		Certificates: []tls.Certificate{securetest.NewAuthority(t).IssueFor(key, nil, "localhost")}, MinVersion: tls.VersionTLS12,
		CurvePreferences: []tls.CurveID{tls.CurveP256, tls.X25519},
	})
	listener := wstest.Listen(t)
	l := group(t, 1).Pick()
	var handshakes sync.WaitGroup
	defer handshakes.Wait()
	defer listener.Close()
	handshakes.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			handshakes.Go(func() { answerLines(l, nc, config) })
		}
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, line := range tlsfuzzerScripts {
		t.Run(line[0], func(t *testing.T) {
			arguments := append([]string{filepath.Join("scripts", line[0]+".py"), "-h", "localhost", "-p", port}, line[1:]...)
			command := exec.CommandContext(t.Context(), filepath.Join(directory, "venv/bin/python"), arguments...)
			command.Dir = directory
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// answerLines serves a client as tlsfuzzer expects it: with an answer to what ends with a line's end, and close_notify for close_notify.
func answerLines(l *Loop, nc net.Conn, config *tls.Config) {
	server := secure.Server(&recordwise{TCPConn: nc.(*net.TCPConn)}, config, nil)
	_ = nc.SetDeadline(wstest.Deadline())
	if server.Handshake() != nil {
		_ = nc.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, nc) // so that the alert is not lost
		_ = nc.Close()
		return
	}
	socket, err := Detach(server)
	if err != nil {
		return
	}
	if !l.Call(func() {
		l.Add(socket, &script{
			received: func(c *Conn, b []byte) int {
				if b[len(b)-1] == '\n' {
					c.Write(b)
				}
				return len(b)
			},
			ended: func(c *Conn, err error) {
				if err == io.EOF {
					c.CloseWrite()
				}
				c.Close()
			},
		}, nil)
	}) {
		socket.Close()
	}
}

// recordwise is a connection from which crypto/tls reads no more than it needs for the handshake.
type recordwise struct {
	*net.TCPConn
	left int // of the record
	head []byte
}

func (r *recordwise) Read(b []byte) (int, error) {
	if len(r.head) == 0 && r.left == 0 {
		r.head = make([]byte, 5)
		if _, err := io.ReadFull(r.TCPConn, r.head); err != nil {
			return 0, err
		}
		r.left = int(binary.BigEndian.Uint16(r.head[3:]))
	}
	if len(r.head) > 0 {
		n := copy(b, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	n, err := r.TCPConn.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}
