//go:build unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/gobwas/ws"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// PROXY headers of version 2: of the client 192.0.2.7:4097, and of a load balancer's own health check.
const (
	clientHeader = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x05\x10\x01\x00\x50"
	localHeader  = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// dialAs connects as a load balancer does: with a PROXY header, which may be empty, and fields that it has added to the request.
func (p *proxy) dialAs(path, header string, fields http.Header) (*rawClient, error) {
	p.t.Helper()
	dialer := ws.Dialer{
		Header: ws.HandshakeHeaderHTTP(fields),
		NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				_, err = nc.Write([]byte(header))
			}
			return nc, err
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	nc, early, _, err := dialer.Dial(ctx, p.url(path))
	if err != nil {
		return nil, err
	}
	c := &rawClient{t: p.t, nc: nc.(*net.TCPConn), r: bufio.NewReader(nc)}
	if early != nil {
		c.r = early
	}
	_ = nc.SetDeadline(wstest.Deadline())
	p.t.Cleanup(func() { _ = nc.Close() })
	return c, nil
}

// TestClientsBehindALoadBalancer has the real program name the client, and not the load balancer, wherever it names one, and no longer
// trust any proxy once its settings say so.
func TestClientsBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file, accessLog := filepath.Join(directory, "wsbouncer.yaml"), filepath.Join(directory, "access.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("trusted-proxies: [127.0.0.1, 192.0.2.0/24]\nproxy-protocol: required\n")
	sim := startSim(t)
	p := startReady(t, "--settings", file, "--backend", sim.url, "--path", "/v1/echo", "--connections", "2", "--access-log", accessLog, "--health-path", "/healthz")

	if status, _ := httpExchange(t, p.address, localHeader+"GET /healthz HTTP/1.1\r\nHost: wsbouncer\r\n\r\n"); status != http.StatusOK {
		t.Errorf("the load balancer's health check gets %d", status)
	}
	c, err := p.dialAs("/v1/echo", clientHeader, http.Header{"X-Forwarded-For": {"198.51.100.1, 203.0.113.9"}})
	if err != nil {
		t.Fatal(err)
	}
	c.echo("hello")
	const client = "203.0.113.9" // 192.0.2.7 is trusted, and says so; what the client wrote before is not believed
	peer := c.nc.LocalAddr().String()
	var listed []struct{ ID, Client, Peer string }
	out := runCommand(t, "session", "ls", "--admin", p.admin, "--client", client, "--output", "json")
	if err := json.Unmarshal([]byte(out.stdout), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("session ls: %v, %+v", err, out)
	}
	if s := listed[0]; s.Client != client || s.Peer != peer {
		t.Errorf("session ls shows %+v; want client %s by %s", s, client, peer)
	}
	if out := runCommand(t, "session", "ls", "--admin", p.admin, "--client", "127.0.0.1", "--output", "name"); out.stdout != "" {
		t.Errorf("sessions of the load balancer: %q", out.stdout)
	}
	shown := runCommand(t, "session", "show", listed[0].ID, "--admin", p.admin).stdout
	if fields := strings.Join(strings.Fields(shown), " "); !strings.Contains(fields, "client "+client+" peer "+peer) {
		t.Errorf("session show:\n%s", shown)
	}
	c.close(1000, "")
	p.settle()
	if r := p.awaitSession(); r.text("client") != client || r.text("peer") != peer {
		t.Errorf("logged %v", r)
	}
	var lines []record
	wstest.Eventually(t, "the session is in the access log", func() bool { lines = accessLines(t, accessLog); return len(lines) == 1 })
	if lines[0].text("client") != client || lines[0].text("peer") != peer {
		t.Errorf("the access log has %v", lines[0])
	}

	if _, err := p.dialAs("/v1/echo", "", nil); refusedWith(err) != http.StatusBadRequest {
		t.Errorf("without the header that is required: %v", err)
	}
	if r := p.awaitLog("client refused"); !strings.HasPrefix(r.text("reason"), "the PROXY header is missing") || !strings.HasPrefix(r.text("client"), "127.0.0.1:") {
		t.Errorf("logged %v", r)
	}

	write("trusted-proxies: []\n")
	p.signal(syscall.SIGHUP)
	p.awaitLog("settings reloaded")
	if _, err := p.dialAs("/v1/echo", clientHeader, nil); refusedWith(err) != http.StatusBadRequest {
		t.Errorf("a stranger's header: %v", err)
	}
	var refused []record
	wstest.Eventually(t, "the second refusal is in the log", func() bool { refused = p.logged("client refused"); return len(refused) == 2 })
	if r := refused[1]; !strings.HasPrefix(r.text("reason"), "unexpected PROXY header") {
		t.Errorf("logged %v", r)
	}
	if c, err = p.dialAs("/v1/echo", "", http.Header{"X-Forwarded-For": {client}}); err != nil {
		t.Fatal(err)
	}
	c.echo("hello")
	c.close(1000, "")
	p.settle()
	var ended []record
	wstest.Eventually(t, "the second session is in the log", func() bool { ended = p.logged("session ended"); return len(ended) == 2 })
	if r := ended[1]; r.text("client") != c.nc.LocalAddr().String() || r["peer"] != nil {
		t.Errorf("a stranger is believed: %v", r)
	}
	p.stop()
}

// TestPassedForwardedFor has a service pass X-Forwarded-For: its servers get the client's address, and nothing that the client wrote.
func TestPassedForwardedFor(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		_ = c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, "%q", r.Header["X-Forwarded-For"]))
		_, _, _ = c.Read(r.Context())
	}))
	t.Cleanup(h.Close)
	for trusted, want := range map[string]string{"127.0.0.1": `["192.0.2.9"]`, "10.0.0.0/8": `["127.0.0.1"]`} {
		p := startProxy(t, "--backend", "ws"+strings.TrimPrefix(h.URL, "http"), "--pass", "header:X-Forwarded-For", "--warm", "0", "--connections", "2",
			"--trusted-proxies", trusted)
		c, err := p.dialAs("/", "", http.Header{"X-Forwarded-For": {"198.51.100.1, 192.0.2.9"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.receive(); string(got.Payload) != want {
			t.Errorf("trusting %s: the server got %s; want %s", trusted, got.Payload, want)
		}
		_ = c.nc.Close()
		p.settle()
		p.stop()
	}
}
