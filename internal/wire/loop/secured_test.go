package loop

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// This file tests connections with TLS. TestBackpressure and TestMoveUnderTraffic use them, too.

// variant is a way in which the near end speaks TLS.
type variant struct {
	version  uint16
	serves   bool // the near end is the server
	byCrypto bool // crypto/tls keeps the connection
}

// current is the variant of the running test.
var current variant

// configs returns configurations of a version of TLS for both ends.
func configs(t testing.TB, version uint16) (server, client *tls.Config) {
	server, client = securetest.NewAuthority(t).Loopback()
	client.MinVersion, client.MaxVersion = version, version
	if current.byCrypto { // secure follows no connection that has its own key log
		server.KeyLogWriter, client.KeyLogWriter = io.Discard, io.Discard
	}
	return server, client
}

// shake carries out the handshake between the near end and the far one.
func shake(t testing.TB, near, far net.Conn, server, client *tls.Config) (_, _ *tls.Conn) {
	t.Helper()
	done := make(chan error, 1)
	if current.serves {
		nearTLS, farTLS := secure.Server(near, secure.ForServer(server), nil), tls.Client(far, client)
		go func() { done <- nearTLS.Handshake() }()
		if err := errors.Join(farTLS.Handshake(), wstest.Receive(t, done, "the handshake")); err != nil {
			t.Fatal(err)
		}
		return nearTLS, farTLS
	}
	farTLS := tls.Server(far, server)
	go func() { done <- farTLS.Handshake() }()
	nearTLS, err := secure.Client(context.Background(), near, client)
	if err := errors.Join(err, wstest.Receive(t, done, "the handshake")); err != nil {
		t.Fatal(err)
	}
	return nearTLS, farTLS
}

// dial is the dialer of connections of the variant.
func (v variant) dial(t testing.TB) (net.Conn, stream) {
	t.Helper()
	old := current
	current = v
	defer func() { current = old }()
	near, far := wstest.Pair(t)
	server, client := configs(t, v.version)
	nearTLS, farTLS := shake(t, near, far, server, client)
	return nearTLS, farTLS
}

// securedBy returns the dialer of connections with a version of TLS.
func securedBy(version uint16) dialer { return variant{version: version}.dial }

func eachVersion(t *testing.T, f func(t *testing.T, version uint16)) {
	defer func() { current = variant{} }()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, v := range map[string]variant{
			"": {}, " as server": {serves: true}, " by crypto/tls": {byCrypto: true}, " as server by crypto/tls": {serves: true, byCrypto: true},
		} {
			current = v
			t.Run(tls.VersionName(version)+name, func(t *testing.T) { f(t, version) })
		}
	}
}

// echoing consumes what arrives and sends it back.
func echoing() *script {
	return &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}
}

// Records of all sizes come back as they were, however they are cut up on their way.
func TestTLSEcho(t *testing.T) {
	eachVersion(t, func(t *testing.T, version uint16) {
		near, far := securedBy(version)(t)
		add(t, group(t, 1).Pick(), near, echoing(), nil)
		for _, size := range []int{1, 2, 125, 1 << 10, 16<<10 - 1, 16 << 10, 16<<10 + 1, 64 << 10, 300_000} {
			sent, got := randomBytes(size, uint64(size)), make([]byte, size)
			var writer sync.WaitGroup
			writer.Go(func() { _, _ = far.Write(sent) })
			if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes: something else came back: %v", size, err)
			}
			writer.Wait()
		}
	})
}

// dribble is a connection whose writes go out byte by byte.
type dribble struct{ net.Conn }

func (d dribble) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := d.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// Records that arrive byte by byte, and records of one byte, are received like any others.
func TestTLSByteByByte(t *testing.T) {
	eachVersion(t, func(t *testing.T, version uint16) {
		near, far := wstest.Pair(t)
		server, client := configs(t, version)
		nearTLS, farTLS := shake(t, near, dribble{far}, server, client)
		add(t, group(t, 1).Pick(), nearTLS, echoing(), nil)
		sent := randomBytes(700, 1)
		var writer sync.WaitGroup
		writer.Go(func() {
			_, _ = farTLS.Write(sent[:500])
			for i := range sent[500:] {
				_, _ = farTLS.Write(sent[500+i : 501+i])
			}
		})
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(farTLS, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("something else came back: %v", err)
		}
		writer.Wait()
	})
}

// corked is a connection whose writes go out together when it is uncorked.
type corked struct {
	net.Conn
	cork bool
	kept []byte
}

func (c *corked) Write(b []byte) (int, error) {
	if c.cork {
		c.kept = append(c.kept, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *corked) uncork() {
	c.cork = false
	_ = c.SetWriteDeadline(time.Time{}) // CloseWrite has set one
	_, _ = c.Conn.Write(c.kept)
	c.kept = nil
}

// What TLS has in its buffers when the loop takes over is presented without an event: what it has decrypted, what it could decrypt,
// the beginning of a record, and the end of the stream.
func TestTLSHandOver(t *testing.T) {
	eachVersion(t, func(t *testing.T, version uint16) {
		for name, c := range map[string]struct {
			records []string
			end     bool
			rest    int // bytes of the last record that arrive later
		}{
			"decrypted":       {records: []string{"answer, and frames"}},
			"more records":    {records: []string{"answer", " ", "and", " frames"}},
			"a piece of one":  {records: []string{"answer, ", "and frames"}, rest: 5},
			"a piece of that": {records: []string{"answer, ", "and frames"}, rest: 25},
			"the end":         {records: []string{"answer, ", "and frames"}, end: true},
			"only the end":    {records: []string{"a"}, end: true},
		} {
			t.Run(name, func(t *testing.T) {
				near, far := wstest.Pair(t)
				server, client := configs(t, version)
				cork := &corked{Conn: far}
				nearTLS, farTLS := shake(t, near, cork, server, client)
				cork.cork = true
				want := strings.Join(c.records, "")
				for _, record := range c.records {
					_, _ = farTLS.Write([]byte(record))
				}
				if c.end {
					_ = farTLS.CloseWrite()
				}
				late := bytes.Clone(cork.kept[len(cork.kept)-c.rest:])
				cork.kept = cork.kept[:len(cork.kept)-c.rest]
				cork.uncork()
				first := make([]byte, 1)
				if _, err := io.ReadFull(nearTLS, first); err != nil {
					t.Fatal(err)
				}
				h := collect()
				h.grew = make(chan int, 100)
				if len(want) == 1 { // the test has received everything
					first, want = nil, ""
				}
				conn := add(t, group(t, 1).Pick(), nearTLS, h, first)
				_, _ = far.Write(late)
				for n := 0; n < len(want); {
					n = wstest.Receive(t, h.grew, "what has been sent")
				}
				on(t, conn, func() {
					if string(h.bytes) != want {
						t.Errorf("got %q; want %q", h.bytes, want)
					}
				})
				if c.end {
					wstest.Receive(t, h.done, "the end")
					on(t, conn, func() {
						if h.errs[0] != io.EOF {
							t.Errorf("ended with %v", h.errs)
						}
					})
				}
			})
		}
	})
}

// Each way in which the far end can leave is reported as what it is.
func TestTLSEnds(t *testing.T) {
	eachVersion(t, func(t *testing.T, version uint16) {
		for name, c := range map[string]struct {
			leave func(far *net.TCPConn, farTLS *tls.Conn)
			want  string
		}{
			"close_notify":         {func(_ *net.TCPConn, farTLS *tls.Conn) { _ = farTLS.CloseWrite() }, "EOF"},
			"close_notify and FIN": {func(_ *net.TCPConn, farTLS *tls.Conn) { _ = farTLS.Close() }, "EOF"},
			"FIN":                  {func(far *net.TCPConn, _ *tls.Conn) { _ = far.Close() }, "EOF"},
			"FIN in a record":      {func(far *net.TCPConn, _ *tls.Conn) { _, _ = far.Write([]byte{23, 3, 3, 0, 99, 1}); _ = far.Close() }, "cut off within a TLS record"},
			"FIN in a header":      {func(far *net.TCPConn, _ *tls.Conn) { _, _ = far.Write([]byte{23, 3}); _ = far.Close() }, "cut off within a TLS record"},
			"reset":                {func(far *net.TCPConn, _ *tls.Conn) { _ = far.SetLinger(0); _ = far.Close() }, "connection reset"},
			"record that is not its": {func(far *net.TCPConn, _ *tls.Conn) {
				_, _ = far.Write(append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...))
			}, "bad record MAC"},
			"not TLS": {func(far *net.TCPConn, _ *tls.Conn) { _, _ = far.Write([]byte("HTTP/1.1 500 Oops\r\n\r\n")) }, "tls:"},
		} {
			t.Run(name, func(t *testing.T) {
				near, far := wstest.Pair(t)
				server, client := configs(t, version)
				nearTLS, farTLS := shake(t, near, far, server, client)
				h := collect()
				conn := add(t, group(t, 1).Pick(), nearTLS, h, nil)
				_, _ = farTLS.Write([]byte("last words"))
				c.leave(far, farTLS)
				wstest.Receive(t, h.done, "the end")
				settle(t, conn.Loop())
				on(t, conn, func() {
					if len(h.errs) != 1 || !strings.Contains(h.errs[0].Error(), c.want) || (h.errs[0] == io.EOF) != (c.want == "EOF") {
						t.Errorf("ended with %v; want %s", h.errs, c.want)
					}
					if string(h.bytes) != "last words" && c.want != "connection reset" {
						t.Errorf("got %q", h.bytes)
					}
					conn.Close()
				})
			})
		}
	})
}

// The end is reported after everything that came before it, even if the handler pauses reading.
func TestTLSEndWaitsForTheHandler(t *testing.T) {
	for _, keep := range []bool{false, true} {
		nearTCP, farTCP := wstest.Pair(t)
		server, client := configs(t, tls.VersionTLS13)
		cork := &corked{Conn: farTCP}
		near, far := shake(t, nearTCP, cork, server, client)
		var got []byte
		paused, ended := make(chan struct{}), make(chan error, 1)
		c := add(t, group(t, 1).Pick(), near, &script{
			received: func(c *Conn, b []byte) int {
				if keep && got == nil {
					got = append(got, b[:1]...)
					c.PauseBefore(b[1:])
					close(paused)
					return len(b)
				}
				if got == nil {
					c.Pause()
					close(paused)
				}
				got = append(got, b...)
				return len(b)
			},
			ended: func(_ *Conn, err error) { ended <- err },
		}, nil)
		cork.cork = true
		_, _ = far.Write([]byte("last words"))
		_ = far.CloseWrite()
		cork.uncork() // so that both are read at once
		wstest.Receive(t, paused, "the first bytes")
		settle(t, c.Loop())
		select {
		case err := <-ended:
			t.Errorf("ended with %v while paused", err)
		default:
		}
		on(t, c, c.Resume)
		if err := wstest.Receive(t, ended, "the end"); err != io.EOF {
			t.Errorf("ended with %v", err)
		}
		on(t, c, func() {
			if string(got) != "last words" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// CloseWrite ends the stream in order after everything that was written, even what had to be kept. The other direction continues.
func TestTLSCloseWrite(t *testing.T) {
	eachVersion(t, func(t *testing.T, version uint16) {
		near, far := wstest.Pair(t)
		server, client := configs(t, version)
		nearTLS, farTLS := shake(t, near, far, server, client)
		h := collect()
		c := add(t, group(t, 1).Pick(), nearTLS, h, nil)
		sent := randomBytes(16<<20, 3)
		on(t, c, func() {
			c.Write(sent)
			if c.Pending() == 0 {
				t.Error("the socket has taken everything")
			}
			c.CloseWrite()
		})
		got, err := io.ReadAll(farTLS) // without close_notify and FIN it would return an error
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes, or others: %v", len(got), err)
		}
		if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d bytes after close_notify, %v", n, err)
		}
		if _, err := farTLS.Write([]byte("still here")); err != nil {
			t.Error(err)
		}
		_ = farTLS.Close()
		wstest.Receive(t, h.done, "the end")
		on(t, c, func() {
			if string(h.bytes) != "still here" || h.errs[0] != io.EOF {
				t.Errorf("got %q, %v", h.bytes, h.errs)
			}
		})
	})
}

// Close cuts the stream off, without close_notify.
func TestTLSClose(t *testing.T) {
	near, far := wstest.Pair(t)
	server, client := configs(t, tls.VersionTLS13)
	nearTLS, farTLS := shake(t, near, far, server, client)
	c := add(t, group(t, 1).Pick(), nearTLS, &script{}, nil)
	_, _ = farTLS.Read(nil)
	on(t, c, c.Close)
	if n, err := farTLS.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A socket that was not added to a loop can be closed.
func TestTLSSocketClose(t *testing.T) {
	near, far := securedBy(tls.VersionTLS13)(t)
	socket, err := Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
