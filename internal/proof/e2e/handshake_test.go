//go:build unix

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestRefusedRequests sends what is no proper upgrade request, and looks at the answer.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "2", "--path", "/v1/stt",
		"--allow-origin", "https://good.example", "--allow-origin", "https://also.example", "--max-header", "2KiB")
	without := func(line string) string {
		return strings.Replace(upgrade("/v1/stt"), line+"\r\n", "", 1)
	}
	with := func(old, now string) string { return strings.Replace(upgrade("/v1/stt"), old, now, 1) }
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name    string
		request string
		status  int
		header  map[string]string
	}{
		{"long request line", upgrade("/v1/stt?" + long), 431, nil},
		{"long request line, without an end", "GET /" + long, 431, nil},
		{"long header", upgrade("/v1/stt", "X-Long: "+long), 431, nil},
		{"many header lines", upgrade("/v1/stt", strings.Repeat("X-Many: x\r\n", 300)+"X-Last: x"), 431, nil},
		{"plain GET", "GET /v1/stt HTTP/1.1\r\nHost: example.com\r\n\r\n", 426, map[string]string{"Upgrade": "websocket"}},
		{"no Connection", without("Connection: Upgrade"), 426, map[string]string{"Upgrade": "websocket"}},
		{"other upgrade", with("Upgrade: websocket", "Upgrade: h2c"), 426, map[string]string{"Upgrade": "websocket"}},
		{"HTTP/1.0", with("HTTP/1.1", "HTTP/1.0"), 400, nil},
		{"plain HTTP/1.0", "GET /v1/stt HTTP/1.0\r\n\r\n", 426, nil},
		{"POST", with("GET", "POST"), 400, nil},
		{"plain POST", "POST /v1/stt HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n\r\nbody", 426, nil},
		{"GET with a body", upgrade("/v1/stt", "Content-Length: 4") + "body", 400, nil},
		{"old version", with("Version: 13", "Version: 8"), 426, map[string]string{"Sec-WebSocket-Version": "13"}},
		{"no version", without("Sec-WebSocket-Version: 13"), 426, map[string]string{"Sec-WebSocket-Version": "13"}},
		{"no key", without("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400, nil},
		{"short key", with("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="), 400, nil},
		{"no host", without("Host: example.com"), 400, nil},
		{"other path", upgrade("/v1/other"), 404, nil},
		{"path with more", upgrade("/v1/stt/"), 404, nil},
		{"plain GET of other path", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 404, nil},
		{"forbidden origin", upgrade("/v1/stt", "Origin: https://evil.example"), 403, nil},
		{"origin null", upgrade("/v1/stt", "Origin: null"), 403, nil},
		{"garbage", "\x00\x01\x02 garbage\r\n\r\n", 400, nil},
		{"nothing but an end", "\r\n\r\n", 400, nil},
		{"bad header line", upgrade("/v1/stt", "no colon"), 400, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header := httpExchange(t, p.address, c.request)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for name, want := range c.header {
				if got := header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if header.Get("Connection") != "close" {
				t.Errorf("Connection: %q, want close", header.Get("Connection"))
			}
		})
	}
	s := p.settle()
	if s.Sessions.Total != 0 || s.Sessions.Refused["431"] != 4 || s.Sessions.Refused["404"] != 3 || s.Sessions.Refused["403"] != 2 {
		t.Errorf("sessions: %+v", s.Sessions)
	}

	// What is asked for properly is served, in any case of letters and with a query.
	for _, good := range []string{
		upgrade("/v1/stt?language=de"),
		upgrade("/v1/stt", "Origin: https://also.example"),
		with("Upgrade: websocket\r\nConnection: Upgrade", "upgrade: WebSocket\r\nconnection: keep-alive, upgrade"),
		upgrade("/v1/stt", "Sec-WebSocket-Extensions: permessage-deflate"),
	} {
		status, header := httpExchange(t, p.address, good)
		if status != http.StatusSwitchingProtocols || header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
			header.Get("Sec-WebSocket-Extensions") != "" {
			t.Errorf("status %d, %v for\n%s", status, header, good)
		}
		p.settle()
	}
}

// TestStalledRequest has clients that do not finish their request in time.
func TestStalledRequest(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1", "--handshake-timeout", "200ms")
	for name, request := range map[string]string{
		"silent":         "",
		"half a request": upgrade("/")[:100],
		"garbage":        strings.Repeat("\xff\x00", 300),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, _ := httpExchange(t, p.address, request); status != http.StatusRequestTimeout && status != 0 {
				t.Errorf("status %d, want 408 or none", status)
			}
		})
	}
	t.Run("drop by drop", func(t *testing.T) {
		t.Parallel()
		nc, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		begun := time.Now()
		wstest.Eventually(t, "the proxy has had enough", func() bool {
			_, err := nc.Write([]byte("x"))
			return err != nil
		})
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("a drop now and then kept the proxy waiting for %v", took)
		}
	})
}

// TestManyStalledRequests has more clients that do not speak than requests are worked on at a time: others are served.
func TestManyStalledRequests(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url, "--connections", "1")
	for range 300 {
		nc, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	c := dialRaw(t, p.url("/"))
	c.echo("served all the same")
	c.close(1000, "")
}

// TestEarlyFrames sends frames right behind the request, before the answer: none is lost.
func TestEarlyFrames(t *testing.T) {
	t.Parallel()
	for _, profile := range profiles {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			sim := startSim(t)
			p := startReady(t, "--backend", sim.url, "--profile", profile, "--connections", "1")
			nc, err := net.Dial("tcp", p.address)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_ = nc.SetDeadline(wstest.Deadline())
			early := append(masked(ws.NewTextFrame([]byte("early"))), masked(ws.NewTextFrame([]byte("cut in two")))...)
			if _, err := nc.Write(append([]byte(upgrade("/")), early[:len(early)-3]...)); err != nil {
				t.Fatal(err)
			}
			c := &rawClient{t: t, nc: nc.(*net.TCPConn), r: readAnswer(t, nc)}
			c.expect(ws.NewTextFrame([]byte("early")))
			c.sendRaw(early[len(early)-3:])
			for got := ""; got != "cut in two"; { // in one piece or more, as far as reading goes, but one frame
				got += string(c.receive().Payload)
			}
			c.close(1000, "")
			p.settle()
		})
	}
}

// TestSubprotocol asks the server for a subprotocol, and grants it to clients that offer it.
func TestSubprotocol(t *testing.T) {
	t.Parallel()
	sim := startSim(t, "--subprotocol", "audio.v1")
	p := startReady(t, "--backend", sim.url, "--profile", "echo", "--connections", "1", "--subprotocol", "audio.v1")
	for offers, want := range map[string]string{"": "", "other": "", "other, audio.v1": "audio.v1"} {
		t.Run(fmt.Sprintf("%q", offers), func(t *testing.T) {
			p.settle()
			ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
			defer cancel()
			options := new(websocket.DialOptions)
			if offers != "" {
				options.Subprotocols = strings.Split(offers, ", ")
			}
			c, _, err := websocket.Dial(ctx, p.url("/"), options)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Subprotocol(); got != want {
				t.Errorf("granted %q, want %q", got, want)
			}
			if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
		})
	}
	// A server that does not know it cannot be used.
	other := startSim(t)
	startProxy(t, "--backend", other.url, "--subprotocol", "audio.v1").awaitUnready(`subprotocol "" instead of "audio.v1"`)
}

// TestAdmin asks the admin API for what it has and for what it has not.
func TestAdmin(t *testing.T) {
	t.Parallel()
	sim := startSim(t)
	p := startReady(t, "--backend", sim.url)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/readyz", 200, "ready"},
		{"HEAD", "/readyz", 200, ""},
		{"GET", "/api/v1/stats", 200, `"frames_from_clients"`},
		{"GET", "/", 200, "/api/v1/stats"},
		{"GET", "/nothing", 404, ""},
		{"POST", "/healthz", 405, ""},
		{"DELETE", "/api/v1/stats", 405, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, p.admin+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(body), c.body) {
			t.Errorf("%s %s: %d %q, %v; want %d %q", c.method, c.path, resp.StatusCode, body, err, c.status, c.body)
		}
	}
}
