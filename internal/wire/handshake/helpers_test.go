package handshake

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	sampleKey    = "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455, section 1.3
	sampleAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	plainRequest = "GET /v1/stt?lang=ja HTTP/1.1\r\nHost: proxy.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + sampleKey + "\r\nSec-WebSocket-Version: 13\r\n\r\n"
	testTimeout = 20 * time.Second // ends a test that hangs
)

// acceptOne starts a server that calls serve with the first connection, and closes it when serve returns.
func acceptOne(t *testing.T, serve func(nc net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := listener.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(testTimeout))
		serve(nc)
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

// parsed returns the target with a URL.
func parsed(t testing.TB, url string) *Target {
	t.Helper()
	target, err := ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// dialed returns a connection to a target, which is closed when the test ends.
func dialed(t testing.TB, target *Target) Established {
	t.Helper()
	established, err := target.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = established.Conn.Close() })
	return established
}

// edit returns plainRequest with one text replaced by another.
func edit(t testing.TB, from, to string) string {
	t.Helper()
	if !strings.Contains(plainRequest, from) {
		t.Fatalf("%q is not in the request", from)
	}
	return strings.Replace(plainRequest, from, to, 1)
}

// with returns plainRequest with more header lines.
func with(lines ...string) string {
	return strings.TrimSuffix(plainRequest, "\r\n") + strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// arriving is a connection on which the pieces arrive one by one, and then the end.
type arriving struct {
	net.Conn
	pieces [][]byte
}

func (a *arriving) Read(b []byte) (int, error) {
	if len(a.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, a.pieces[0])
	if a.pieces[0] = a.pieces[0][n:]; len(a.pieces[0]) == 0 {
		a.pieces = a.pieces[1:]
	}
	return n, nil
}

func arrive(pieces ...string) *arriving {
	a := &arriving{}
	for _, p := range pieces {
		if p != "" {
			a.pieces = append(a.pieces, []byte(p))
		}
	}
	return a
}

// everySplit calls f with text in one piece, in two, cut at every place, and byte by byte.
func everySplit(text string, f func(pieces []string)) {
	f([]string{text})
	for i := 1; i < len(text); i++ {
		f([]string{text[:i], text[i:]})
	}
	f(strings.Split(text, ""))
}

// answer decodes a server's answer as a browser would. It ends the test if there is not exactly one answer.
func answer(t testing.TB, wire []byte) (*http.Response, string) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(wire))
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("%v in %q", err, wire)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%v in %q", err, wire)
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Fatalf("%q behind the answer %q", rest, wire)
	}
	return response, string(body)
}
