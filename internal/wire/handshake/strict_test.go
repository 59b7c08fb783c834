package handshake

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Bytes that a load balancer may read as another request than the proxy does are refused.
func TestSmuggling(t *testing.T) {
	second := "GET /admin HTTP/1.1\r\nHost: proxy.example\r\n\r\n"
	for _, test := range []struct {
		name    string
		request string
		status  int
		reason  string // a part of it
	}{
		{"Content-Length and Transfer-Encoding", with("Content-Length: 0", "Transfer-Encoding: chunked") + "0\r\n\r\n" + second, 400, "Transfer-Encoding"},
		{"Transfer-Encoding that hides", with("Transfer-Encoding: xchunked"), 400, "Transfer-Encoding"},
		{"Transfer-Encoding with a tab", with("Transfer-Encoding:\tchunked"), 400, "Transfer-Encoding"},
		{"Transfer-Encoding behind a space", with("Transfer-Encoding : chunked"), 400, "no field"},
		{"Transfer-Encoding of nothing", with("transfer-encoding:"), 400, "Transfer-Encoding"},
		{"Transfer-Encoding in HTTP/1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "Transfer-Encoding"},
		{"two lengths", with("Content-Length: 0", "Content-Length: 46") + second, 400, "too many Content-Length"},
		{"two equal lengths", with("Content-Length: 0", "content-length: 0"), 400, "too many Content-Length"},
		{"a list of lengths", with("Content-Length: 0, 0"), 400, "malformed"},
		{"a signed length", with("Content-Length: +0"), 400, "malformed"},
		{"a body", with("Content-Length: 46") + second, 400, "must not have a body"},
		{"a continued line", edit(t, "Connection: Upgrade", "Connection: keep-alive,\r\n Upgrade"), 400, "continued"},
		{"a field continued by a tab", with("X: a", "\tTransfer-Encoding: chunked"), 400, "continued"},
		{"the first field begins with a space", edit(t, "Host: proxy", " Host: proxy"), 400, "continued"},
		{"a bare line feed", edit(t, "Host: proxy.example\r\n", "Host: proxy.example\n"), 400, "bare line feed"},
		{"a bare line feed in a value", with("X: a\nTransfer-Encoding: chunked"), 400, "bare line feed"},
		{"a bare carriage return", with("X: a\rTransfer-Encoding: chunked"), 400, "bare carriage return"},
		{"carriage returns before a line feed", edit(t, "Host: proxy.example\r\n", "Host: proxy.example\r\r\n"), 400, "bare carriage return"},
		{"an empty line of line feeds", edit(t, "Host: proxy.example\r\n", "Host: proxy.example\r\n\n"), 400, "bare line feed"},
		{"NUL in a value", with("X: a\x00b"), 400, "control character"},
		{"NUL in a name", with("X\x00: a"), 400, "control character"},
		{"NUL in the target", edit(t, "/v1/stt", "/v1/stt\x00"), 400, "control character"},
		{"DEL", with("X: a\x7f"), 400, "control character"},
		{"two Hosts", with("Host: other.example"), 400, "too many Host headers"},
		{"two equal Hosts", with("host: proxy.example"), 400, "too many Host headers"},
		{"two Hosts in one", edit(t, "Host: proxy.example", "Host: proxy.example, other.example"), 400, "Host header is no host"},
		{"a Host with a path", edit(t, "Host: proxy.example", "Host: proxy.example/admin"), 400, "Host header is no host"},
		{"a Host with a user", edit(t, "Host: proxy.example", "Host: x@proxy.example"), 400, "Host header is no host"},
		{"a Host with a space", edit(t, "Host: proxy.example", "Host: proxy.example other"), 400, "Host header is no host"},
		{"a URL of another host", edit(t, "GET /v1", "GET ws://other.example/v1"), 400, "different hosts"},
		{"a URL with a user", edit(t, "GET /v1", "GET ws://proxy.example@other.example/v1"), 400, "more than a host"},
		{"a URL of a file", edit(t, "GET /v1", "GET file://proxy.example/v1"), 400, "scheme"},
		{"a target that is no path", edit(t, "GET /v1/stt", "GET v1/stt"), 400, "neither a path nor a URL"},
		{"the target of CONNECT", edit(t, "GET /v1/stt?lang=ja", "CONNECT proxy.example:443"), 400, "neither a path nor a URL"},
		{"a fragment", edit(t, "?lang=ja", "#?lang=ja"), 400, "fragment"},
		{"two spaces in the first line", edit(t, " HTTP/1.1", "  HTTP/1.1"), 400, "first line"},
		{"a tab in the first line", edit(t, "GET /", "GET\t/"), 400, "first line"},
		{"a space in the target", edit(t, "/v1/stt", "/v1/stt HTTP/1.1 x"), 400, "first line"},
		{"a space behind the version", edit(t, "HTTP/1.1\r\n", "HTTP/1.1 \r\n"), 400, "first line"},
		{"a version of two digits", edit(t, "HTTP/1.1", "HTTP/1.10"), 400, "version"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "version"},
		{"a lower-case version", edit(t, "HTTP/1.1", "http/1.1"), 400, "version"},
		{"a field without a name", with(": x"), 400, "no field"},
		{"a name that is no token", with("X(y): x"), 400, "no field"},
		{"a line that is no field", with("chunked"), 400, "no field"},
		{"201 fields", with(strings.TrimSuffix(strings.Repeat("A: b\r\n", maxFields-3), "\r\n")), 431, "more than 200 fields"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := ReadRequest(arrive(test.request), DefaultMaxHead)
			var refusal *Refusal
			if err == nil {
				refusal = req.Check()
			} else if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			if refusal == nil {
				t.Fatal("accepted")
			}
			if refusal.Status != test.status || !strings.Contains(refusal.Reason, test.reason) {
				t.Errorf("got %v; want %d and %q", refusal, test.status, test.reason)
			}
		})
	}
	for name, request := range map[string]string{
		"200 fields":           with(strings.TrimSuffix(strings.Repeat("A: b\r\n", maxFields-5), "\r\n")),
		"a port":               edit(t, "Host: proxy.example", "Host: proxy.example:8080"),
		"IPv6":                 edit(t, "Host: proxy.example", "Host: [2001:db8::1]:8080"),
		"bytes over 127":       with("X: \xc3\xa9\xff"),
		"a tab in a value":     with("X: a\tb"),
		"an empty value":       with("X:"),
		"the same host":        edit(t, "GET /v1", "GET http://Proxy.example/v1"),
		"two slashes":          edit(t, "GET /v1", "GET //v1"),
		"HTTP/1.2":             edit(t, "HTTP/1.1", "HTTP/1.2"),
		"pipelined":            plainRequest + second, // which is read as frames
		"a line feed of early": plainRequest + "\n\n",
	} {
		req, err := ReadRequest(arrive(request), DefaultMaxHead)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if refusal := req.Check(); refusal != nil {
			t.Errorf("%s: %v", name, refusal)
		}
	}
}

// handedOver is what net/http makes of the bytes of a connection: a request, and what follows it; no request if it refuses them.
type handedOver struct {
	req    *http.Request
	behind string
}

// one is a listener with one connection.
type one struct{ conns chan net.Conn }

func (l one) Accept() (net.Conn, error) {
	if nc, ok := <-l.conns; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}
func (l one) Close() error   { return nil }
func (l one) Addr() net.Addr { return &net.TCPAddr{} }

// sink is an arriving connection whose peer takes everything. closed is closed with it.
type sink struct {
	*arriving
	closed chan struct{}
}

func (s *sink) Write(b []byte) (int, error)      { return len(b), nil }
func (s *sink) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *sink) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *sink) SetDeadline(time.Time) error      { return nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// FuzzSmuggling checks, for whatever arrives, that the proxy accepts only what the server of net/http takes for the same request, with the
// same end.
func FuzzSmuggling(f *testing.F) {
	for _, text := range []string{
		plainRequest + "\x81\x80abcd", with("Transfer-Encoding: chunked") + "0\r\n\r\n", with("Content-Length: 0", "Content-Length: 0"),
		edit(f, "Connection: Upgrade", "Connection: keep-alive,\r\n Upgrade"), edit(f, "GET /v1", "GET ws://proxy.example/v1"), edit(f, "GET /v1", "GET //v1"),
		edit(f, "\r\nHost", "\nHost"), with("X: a\rb"), with("X: a\x00b"), with("Host: other"), with("X : y"), edit(f, "HTTP/1.1", "HTTP/1.2"),
		edit(f, "Host: proxy.example", "Host: [::1%25eth0]:80"), with("X: \xff", "Expect: 100-continue"), with("Content-Length: 5") + "hello",
		"GET /%2e%2e/?a=%zz;b HTTP/1.1\r\nHost:\r\n\r\n", plainRequest + plainRequest,
	} {
		f.Add(text)
	}
	got := make(chan handedOver, 1)
	listener := one{make(chan net.Conn)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nc, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		rest, _ := io.ReadAll(bufio.NewReader(buffered))
		got <- handedOver{r, string(rest)}
		_ = nc.Close()
	}), ErrorLog: nil, DisableGeneralOptionsHandler: true}
	go func() { _ = server.Serve(listener) }()
	f.Cleanup(func() { close(listener.conns) })
	f.Fuzz(func(t *testing.T, text string) {
		nc := arrive(text)
		req, err := ReadRequest(nc, DefaultMaxHead)
		if err != nil || req.Check() != nil {
			return
		}
		rest, _ := io.ReadAll(nc)
		other := &sink{arrive(text), make(chan struct{})}
		listener.conns <- other
		var theirs handedOver
		select {
		case theirs = <-got:
		case <-other.closed:
			select {
			case theirs = <-got:
			default:
				t.Fatalf("net/http refuses %q", text)
			}
		}
		r := theirs.req
		switch {
		case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
			t.Fatalf("net/http sees a body: %q", text)
		case r.Method != req.Method || r.RequestURI != req.RequestURI || r.URL.Path != req.URL.Path || r.Host != req.Host:
			t.Fatalf("net/http reads %s %s of %s; the proxy %s %s of %s: %q", r.Method, r.RequestURI, r.Host, req.Method, req.RequestURI, req.Host, text)
		case theirs.behind != string(req.Early)+string(rest):
			t.Fatalf("net/http sees %q behind the request; the proxy %q: %q", theirs.behind, string(req.Early)+string(rest), text)
		case len(r.Header) != len(req.Header):
			t.Fatalf("net/http has the header %v; the proxy %v", r.Header, req.Header)
		}
	})
}
