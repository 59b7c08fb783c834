package handshake

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

func TestParseTarget(t *testing.T) {
	tests := []struct{ url, address, host, request string }{
		{"ws://127.0.0.1:9001/v1/stt", "127.0.0.1:9001", "127.0.0.1:9001", "/v1/stt"},
		{"ws://gpu-1", "gpu-1:80", "gpu-1", "/"},
		{"ws://gpu-1/", "gpu-1:80", "gpu-1", "/"},
		{"WS://gpu-1:80/x", "gpu-1:80", "gpu-1:80", "/x"},
		{"ws://gpu-1?model=large&lang=ja", "gpu-1:80", "gpu-1", "/?model=large&lang=ja"},
		{"ws://[::1]:9001/x", "[::1]:9001", "[::1]:9001", "/x"},
		{"ws://[::1]/x", "[::1]:80", "[::1]", "/x"},
		{"ws://gpu-1/a%20b/%E9%9F%B3?q=%20", "gpu-1:80", "gpu-1", "/a%20b/%E9%9F%B3?q=%20"},
		{"ws://gpu-1/音声 1", "gpu-1:80", "gpu-1", "/%E9%9F%B3%E5%A3%B0%201"},
		{"ws://gpu-1:65535/", "gpu-1:65535", "gpu-1:65535", "/"},
		{"wss://gpu-1/x", "gpu-1:443", "gpu-1", "/x"},
		{"WSS://gpu-1:9443", "gpu-1:9443", "gpu-1:9443", "/"},
		{"wss://[::1]", "[::1]:443", "[::1]", "/"},
	}
	for _, test := range tests {
		got, err := ParseTarget(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if got.URL != test.url || got.address != test.address || got.host != test.host || got.request != test.request || got.Protocol != "" ||
			got.Secure() != strings.HasPrefix(strings.ToLower(test.url), "wss:") {
			t.Errorf("%s: %+v", test.url, *got)
		}
	}
}

func TestParseTargetErrors(t *testing.T) {
	tests := []struct{ url, want string }{ // want: what the text must say
		{"", "the scheme is missing"},
		{"127.0.0.1", "the scheme is missing"},
		{"127.0.0.1:9001", "the scheme is missing"},
		{"localhost:9001", "use a URL such as ws://"},
		{"//gpu-1/x", "the scheme is missing"},
		{"ws:gpu-1", "use a URL such as ws://"},
		{"http://gpu-1/", "the scheme must be ws or wss"},
		{"wss:///path", "the host is missing"},
		{"ws://", "the host is missing"},
		{"ws:///path", "the host is missing"},
		{"ws://:9001/", "the host is missing"},
		{"ws://user:secret@gpu-1/", "user name"},
		{"ws://gpu-1/#part", "fragment"},
		{"ws://gpu-1/#", "fragment"},
		{"ws://gpu-1:port/", "port"},
		{"ws://gpu-1:0/", "port"},
		{"ws://gpu-1:65536/", "port"},
		{"ws://gpu-1:99999999999999999999/", "port"},
		{"ws://gpu 1/", "invalid URL"},
		{"ws://gpu-1/a\r\nX: y", "invalid URL"},
		{"ws://gpu-1/%zz", "invalid URL"},
		{"ws://gpu-1/?a b", "percent"},
		{"ws://gpu-1/?q=音", "percent"},
		{"ws://音声/", "host"},
	}
	for _, test := range tests {
		got, err := ParseTarget(test.url)
		if err == nil {
			t.Errorf("%q: accepted as %+v", test.url, *got)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %q does not say %q", test.url, err, test.want)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the text gives the password away: %q", test.url, err)
		}
	}
}

// reply makes a server's answer to the request.
type reply func(r *http.Request) string

// upgraded is the answer of a good server, with more header lines, and bytes behind it.
func upgraded(early string, lines ...string) reply {
	return func(r *http.Request) string {
		return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
			acceptKey(r.Header.Get("Sec-WebSocket-Key")) + "\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n" + early
	}
}

func always(text string) reply { return func(*http.Request) string { return text } }

// scripted starts a server that answers one request and then does what finish says; nil closes the connection.
func scripted(t *testing.T, answer reply, finish func(nc net.Conn)) *Target {
	t.Helper()
	address := acceptOne(t, func(nc net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(nc))
		if err != nil {
			t.Errorf("reading the request: %v", err)
			return
		}
		if answer != nil {
			_, _ = io.WriteString(nc, answer(req))
		}
		if finish != nil {
			finish(nc)
		}
	})
	return parsed(t, "ws://"+address+"/v1/stt?lang=ja")
}

func TestRequestOfTheClient(t *testing.T) {
	var req *http.Request
	var keys []string
	for range 2 {
		target := scripted(t, func(r *http.Request) string {
			req = r
			return upgraded("", "Sec-WebSocket-Protocol: stt.v1")(r)
		}, nil)
		target.Protocol = "stt.v1"
		established := dialed(t, target)
		if established.Protocol != "stt.v1" {
			t.Errorf("protocol %q", established.Protocol)
		}
		if req.Method != "GET" || req.RequestURI != "/v1/stt?lang=ja" || req.Proto != "HTTP/1.1" || req.Host != target.address {
			t.Errorf("%s %s %s, Host %s", req.Method, req.RequestURI, req.Proto, req.Host)
		}
		want := http.Header{
			"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Protocol": {"stt.v1"}, "Sec-Websocket-Key": {req.Header.Get("Sec-WebSocket-Key")},
		}
		if fmt.Sprint(req.Header) != fmt.Sprint(want) {
			t.Errorf("header %v, want %v", req.Header, want)
		}
		key := req.Header.Get("Sec-WebSocket-Key")
		if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != 16 {
			t.Errorf("key %q", key)
		}
		// Our own server side must find nothing to object to.
		if refusal := (&Request{Request: req}).Check(); refusal != nil {
			t.Error(refusal)
		}
		keys = append(keys, key)
	}
	if keys[0] == keys[1] {
		t.Error("the key is not random")
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	replace := func(from, to string) reply {
		return func(r *http.Request) string {
			text := upgraded("")(r)
			if !strings.Contains(text, from) {
				t.Errorf("%q is not in the answer", from)
			}
			return strings.Replace(text, from, to, 1)
		}
	}
	tests := []struct {
		name     string
		protocol string
		answer   reply
		want     string // a part of the error's text
	}{
		{"wrong accept", "", func(*http.Request) string {
			return upgraded("")(&http.Request{Header: http.Header{"Sec-Websocket-Key": {sampleKey}}})
		}, "Sec-WebSocket-Accept does not match"},
		{"no accept", "", replace("Sec-WebSocket-Accept", "X"), "Sec-WebSocket-Accept does not match"},
		{"no upgrade", "", replace("Upgrade: websocket\r\n", ""), "without upgrading"},
		{"another upgrade", "", replace("Upgrade: websocket", "Upgrade: h2c"), "without upgrading"},
		{"no connection", "", replace("Connection: Upgrade\r\n", ""), "without upgrading"},
		{"extension", "", upgraded("", "Sec-WebSocket-Extensions: permessage-deflate"), `not offered: "permessage-deflate"`},
		{"subprotocol not asked for", "", upgraded("", "Sec-WebSocket-Protocol: other"), `subprotocol "other" instead of ""`},
		{"another subprotocol", "stt.v1", upgraded("", "Sec-WebSocket-Protocol: stt.v2"), `subprotocol "stt.v2" instead of "stt.v1"`},
		{"no subprotocol", "stt.v1", upgraded(""), `subprotocol "" instead of "stt.v1"`},
		{"200", "", always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "200 OK instead of upgrading"},
		{"404", "", always("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "404 Not Found"},
		{"redirect", "", always("HTTP/1.1 301 Moved Permanently\r\nLocation: ws://x/\r\n\r\n"), "301 Moved Permanently"},
		{"no HTTP", "", always("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "did not answer with HTTP"},
		{"HTTP/2", "", always("HTTP/2 101\r\n\r\n"), "did not answer with HTTP"},
		{"malformed", "", always("HTTP/1.1 abc\r\n\r\n"), "malformed"},
		{"bare line feeds", "", replace("Connection: Upgrade\r\n", "Connection: Upgrade\n\n"), "malformed"},
		{"nothing", "", always(""), "EOF"},
		{"broken off", "", always("HTTP/1.1 101 Switching Proto"), "unexpected EOF"},
		{"over-long", "", func(r *http.Request) string {
			return upgraded("", "X: "+strings.Repeat("x", DefaultMaxHead))(r)
		}, "too long"},
		{"never ends", "", always("HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("x", 4*DefaultMaxHead)), "too long"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			closed := make(chan error, 1)
			target := scripted(t, test.answer, func(nc net.Conn) {
				_ = nc.(*net.TCPConn).CloseWrite()
				_, err := io.Copy(io.Discard, nc)
				closed <- err
			})
			target.Protocol = test.protocol
			established, err := target.Dial(t.Context())
			if err == nil {
				t.Fatalf("accepted: %+v", established)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "request line") {
				t.Errorf("%q, want %q", err, test.want)
			}
			if established.Conn != nil {
				t.Error("a connection was returned with the error")
			}
			var netErr net.Error
			if err := <-closed; errors.As(err, &netErr) && netErr.Timeout() {
				t.Error("the connection was left open")
			}
		})
	}
}

func TestStatusError(t *testing.T) {
	tests := []struct {
		name, answer string
		status       int
		text, whole  string
	}{
		{
			"busy", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n\r\n all 32 streams are in use \nsecond line", 503,
			"all 32 streams are in use", "server answered 503 Service Unavailable instead of upgrading: all 32 streams are in use",
		},
		{"no text", "HTTP/1.1 401 Unauthorized\r\n\r\n", 401, "", "server answered 401 Unauthorized instead of upgrading"},
		{"long text", "HTTP/1.1 500 X\r\n\r\n" + strings.Repeat("x", 500), 500, strings.Repeat("x", 120), ""},
		{"cut within a character", "HTTP/1.1 500 X\r\n\r\nx" + strings.Repeat("音", 50), 500, "x" + strings.Repeat("音", 39), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := scripted(t, always(test.answer), nil).Dial(t.Context())
			var status *StatusError
			if !errors.As(err, &status) {
				t.Fatal(err)
			}
			if status.Status != test.status || status.Text != test.text {
				t.Errorf("%d, %q; want %d, %q", status.Status, status.Text, test.status, test.text)
			}
			if test.whole != "" && err.Error() != test.whole {
				t.Errorf("%q, want %q", err, test.whole)
			}
		})
	}
}

func TestAnswerSplitAnywhere(t *testing.T) {
	const early = "\x81\x05Hello"
	target := parsed(t, "ws://gpu-1/")
	for cut := range 300 {
		near, far := net.Pipe()
		var length int
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer far.Close()
			req, err := http.ReadRequest(bufio.NewReader(far))
			if err != nil {
				t.Error(err)
				return
			}
			text := upgraded(early)(req)
			length = len(text)
			if cut == 0 { // byte by byte
				for i := range len(text) {
					_, _ = io.WriteString(far, text[i:i+1])
				}
				return
			}
			at := min(cut, len(text))
			_, _ = io.WriteString(far, text[:at])
			_, _ = io.WriteString(far, text[at:])
		}()
		established, err := target.upgrade(near, "/", "", nil)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		rest, _ := io.ReadAll(near)
		if got := string(established.Early) + string(rest); got != early {
			t.Fatalf("cut at %d: early bytes %q and %q", cut, established.Early, rest)
		}
		<-served
		_ = near.Close()
		if cut > length {
			break
		}
	}
}

// Interim responses stand before the answer, in the same read or before it. Nothing behind the answer is lost, and a server cannot send them for ever.
func TestInterimResponses(t *testing.T) {
	hint := "HTTP/1.1 103 Early Hints\r\nLink: </a>; x=" + strings.Repeat("x", 5000) + "\r\n\r\n" // larger than the first buffer for a head
	early := strings.Repeat("\x81\x05Hello", 500)
	for hints := range maxInterim + 2 {
		for _, final := range []reply{upgraded(early), always("HTTP/1.1 503 Service Unavailable\r\n\r\nbusy")} {
			target := scripted(t, func(r *http.Request) string {
				return strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", min(hints, 1)) + strings.Repeat(hint, max(hints-1, 0)) + final(r)
			}, nil)
			established, err := target.Dial(t.Context())
			status := (*StatusError)(nil)
			switch {
			case err == nil:
				rest, _ := io.ReadAll(established.Conn)
				_ = established.Conn.Close()
				if got := string(established.Early) + string(rest); got != early || hints > maxInterim {
					t.Errorf("%d interim responses: %d early bytes", hints, len(got))
				}
			case !errors.As(err, &status):
				t.Errorf("%d interim responses: %v", hints, err)
			case hints > maxInterim:
				if status.Status != http.StatusEarlyHints {
					t.Errorf("%d interim responses: %v", hints, err)
				}
			case status.Status != http.StatusServiceUnavailable || status.Text != "busy":
				t.Errorf("%d interim responses: %v", hints, err)
			}
		}
	}
}

func TestEarlyFramesAreKept(t *testing.T) {
	early := bytes.Repeat([]byte("\x81\x05Hello"), 500) // more than is read with the answer
	target := scripted(t, upgraded(string(early)), nil)
	established := dialed(t, target)
	rest, err := io.ReadAll(established.Conn)
	if err != nil || !bytes.Equal(append(established.Early, rest...), early) {
		t.Errorf("%d early bytes, %d behind them, %v", len(established.Early), len(rest), err)
	}
}

func TestDialIsCancelled(t *testing.T) {
	reason := errors.New("the pool was closed")
	tests := []struct {
		name   string
		cancel func(context.CancelCauseFunc)
		want   error
	}{
		{"cancelled", func(cancel context.CancelCauseFunc) { cancel(nil) }, context.Canceled},
		{"with a cause", func(cancel context.CancelCauseFunc) { cancel(reason) }, reason},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			closed := make(chan error, 1)
			target := scripted(t, always("HTTP/1.1 101 Switching"), func(nc net.Conn) {
				test.cancel(cancel)
				_, err := io.Copy(io.Discard, nc)
				closed <- err
			})
			_, err := target.Dial(ctx)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "no answer to the upgrade request") {
				t.Errorf("%v, want %v", err, test.want)
			}
			var netErr net.Error
			if err := <-closed; errors.As(err, &netErr) && netErr.Timeout() {
				t.Error("the connection was left open")
			}
		})
	}
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and nothing answers
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if _, err := parsed(t, "ws://"+silent.Addr().String()).Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		target := parsed(t, "ws://127.0.0.1:1/")
		if _, err := target.Dial(ctx); err == nil {
			t.Error("no error")
		}
	})
}

// The context bounds the handshake, not the connection that comes out of it.
func TestConnectionOutlivesTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	target := scripted(t, upgraded(""), func(nc net.Conn) { _, _ = io.Copy(nc, nc) })
	established, err := target.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer established.Conn.Close()
	cancel()
	if _, err := established.Conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(established.Conn, got); err != nil || string(got) != "ping" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNoServerListens(t *testing.T) {
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	target := parsed(t, "ws://"+address)
	if _, err := target.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
