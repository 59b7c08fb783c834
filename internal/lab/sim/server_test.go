package sim

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestSessionsLimit(t *testing.T) {
	s := start(t, Options{Sessions: 2})
	first := dial(t, s)
	dial(t, s)
	_, response := request(t, s, wstest.UpgradeRequest("/"))
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" ||
		!strings.Contains(string(body), "all 2 sessions are in use") {
		t.Errorf("got %s, %v, %q", response.Status, response.Header, body)
	}
	// The place of a client that saw the end of its connection is free.
	for range 50 {
		if err := first.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Fatal(err)
		}
		first = dial(t, s)
	}
	want := Stats{Connections: 2, Peak: 2, Accepted: 52, Refused: 1}
	if got := s.Stats(); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// However many come at once, no more are let in than there are places.
func TestSessionsLimitInARush(t *testing.T) {
	s := start(t, Options{Sessions: 10, Loops: 2})
	var clients sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for range 60 {
		clients.Go(func() {
			c, response, err := websocket.Dial(wstest.Context(t), s.URL(), nil)
			if err == nil {
				t.Cleanup(func() { _ = c.CloseNow() })
			}
			if response != nil {
				mu.Lock()
				counts[response.StatusCode]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	if counts[101] != 10 || counts[503] != 50 {
		t.Errorf("got %v", counts)
	}
	want := Stats{Connections: 10, Peak: 10, Accepted: 10, Refused: 50}
	if got := s.Stats(); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// Answers come in order, however much the latency varies, and not before their time.
func TestLatency(t *testing.T) {
	const latency = 5 * time.Millisecond
	s := start(t, Options{Latency: latency, Jitter: 5 * time.Millisecond, Seed: 1})
	c := dial(t, s)
	begin := time.Now()
	const n = 200
	for i := range n {
		say(t, c, websocket.MessageText, fmt.Append(nil, i))
	}
	for i := range n {
		if got, want := hearText(t, c), fmt.Sprint(i); got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
		if waited := time.Since(begin); waited < latency {
			t.Fatalf("answer after %v", waited)
		}
	}
}

func TestCloseCutsConnections(t *testing.T) {
	s := start(t, Options{})
	open := dial(t, s)
	// One in the middle of its handshake.
	half, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := half.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if _, _, err := open.Read(wstest.Context(t)); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("got %v; want the end without a close frame", err)
	}
	if _, err := half.Read(make([]byte, 1)); err == nil {
		t.Error("the handshake continues")
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
	if got := s.Stats(); got.Connections != 0 || got.Peak != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestCloseSessions(t *testing.T) {
	for name, o := range map[string]Options{"echo": {}, "vosk": {Protocol: Vosk}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, o)
			c := dial(t, s)
			wstest.Eventually(t, "the connection opens", func() bool { return opened(s) == 1 }) // has come to its loop
			s.CloseSessions(frame.ServiceRestart, "back soon")
			_, _, err := c.Read(wstest.Context(t))
			if websocket.CloseStatus(err) != websocket.StatusServiceRestart || !strings.Contains(err.Error(), "back soon") {
				t.Errorf("got %v; want 1012", err)
			}
			dial(t, s)
		})
	}
}

// opened counts the connections on the loops.
func opened(s *Server) (n int) {
	for i, l := range s.group.Loops() {
		l.Call(func() { n += len(s.lanes[i].conns) })
	}
	return n
}

func TestClientsBreakingTheProtocol(t *testing.T) {
	unmasked := []byte("\x81\x05hello")
	badText := wstest.ClientFrame(true, frame.Text, []byte("hello \xff"))
	long := frame.AppendHeader(nil, frame.Header{Fin: true, Opcode: frame.Binary, Masked: true, Length: 2000})
	badClose := wstest.ClientFrame(true, frame.Close, []byte("\x03\xee"))
	for name, o := range map[string]Options{"pieces": {MaxMessage: 1000}, "whole": {MaxMessage: 1000, Latency: 1}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, o)
			for i, test := range []struct {
				send []byte
				code frame.CloseCode
			}{
				{unmasked, frame.ProtocolError},
				{badText, frame.InvalidPayload},
				{long, frame.MessageTooBig},
				{badClose, frame.ProtocolError},
			} {
				c := dialRaw(t, s)
				c.SendBytes(test.send)
				got, err := io.ReadAll(c)
				if err != nil || len(got) < 4 || got[0] != 0x88 {
					t.Fatalf("%q: got %q, %v", test.send, got, err)
				}
				if code, _, _ := frame.ParseClose(got[2:]); code != test.code {
					t.Errorf("%q: got %v; want %v", test.send, code, test.code)
				}
				if got := s.Stats().ProtocolErrors; got != uint64(i+1) {
					t.Errorf("%d protocol errors counted; want %d", got, i+1)
				}
			}
		})
	}
}

// In the middle of a frame that goes back already, there is no place for a close frame.
func TestBadTextInTheMiddleOfAnEcho(t *testing.T) {
	s := start(t, Options{})
	c := dialRaw(t, s)
	message := wstest.ClientFrame(true, frame.Text, append(bytes.Repeat([]byte("a"), 100), 0xff))
	c.SendBytes(message[:50])
	back := make([]byte, 46) // the header is four bytes shorter
	if _, err := io.ReadFull(c, back); err != nil {
		t.Fatal(err)
	}
	c.SendBytes(message[50:])
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v; want the end", rest, err)
	}
}

func TestRequestsThatAreNoUpgrade(t *testing.T) {
	s := start(t, Options{})
	_, response := request(t, s, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	if response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("got %s", response.Status)
	}
	if _, response = request(t, s, "nonsense\r\n\r\n"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s", response.Status)
	}
	if got := s.Stats(); got != (Stats{BadRequests: 2}) {
		t.Errorf("got %+v", got)
	}
}

func TestSubprotocol(t *testing.T) {
	s := start(t, Options{Subprotocol: "binary"})
	for _, test := range []struct {
		offer []string
		want  string
	}{{nil, ""}, {[]string{"text"}, ""}, {[]string{"text", "binary"}, "binary"}} {
		c, _, err := websocket.Dial(wstest.Context(t), s.URL(), &websocket.DialOptions{Subprotocols: test.offer})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Subprotocol(); got != test.want {
			t.Errorf("offered %q: got %q; want %q", test.offer, got, test.want)
		}
		_ = c.CloseNow()
	}
}

// What a client sends together with its request is not lost.
func TestEarlyFrames(t *testing.T) {
	for _, latency := range []time.Duration{0, 1} {
		s := start(t, Options{Latency: latency})
		c, _ := request(t, s, wstest.UpgradeRequest("/")+string(wstest.ClientFrame(true, frame.Text, []byte("early"))))
		var back [7]byte
		if _, err := io.ReadFull(c, back[:]); err != nil || string(back[2:]) != "early" {
			t.Errorf("got %q, %v", back, err)
		}
	}
}

func TestURL(t *testing.T) {
	s := start(t, Options{Listen: "0.0.0.0:0"})
	if got, want := s.URL(), fmt.Sprintf("ws://127.0.0.1:%d", s.Addr().Port); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestListenFails(t *testing.T) {
	s := start(t, Options{})
	if other, err := Start(Options{Listen: s.Addr().String()}); err == nil {
		other.Close()
		t.Error("two servers on one address")
	}
}

// Where a path is asked for, the query does not matter, and other paths do not exist.
func TestPath(t *testing.T) {
	s := start(t, Options{Path: "/v1/listen"})
	for path, want := range map[string]int{
		"/v1/listen": 101, "/v1/listen?model=x": 101, "/": 404, "/v1": 404, "/v1/listen/": 404, "/V1/listen": 404,
	} {
		c, response, err := websocket.Dial(wstest.Context(t), s.URL()+path, nil)
		if err == nil {
			t.Cleanup(func() { _ = c.CloseNow() })
		}
		if response == nil || response.StatusCode != want {
			t.Errorf("%s: got %v, %v; want %d", path, response, err, want)
		}
	}
}
