package session

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// upgradeRequest is what a proper client sends; further header lines go in between.
func upgradeRequest(path string, header ...string) string {
	text := "GET " + path + " HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, line := range header {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

// connect connects and sends some bytes.
func (r *rig) connect(bytes string) *peer {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = nc.Close() })
	p := newPeer(r.t, nc, bufio.NewReaderSize(nc, 64<<10), false)
	p.write([]byte(bytes))
	return p
}

// request connects, sends some bytes and reads the head of the HTTP answer.
func (r *rig) request(bytes string) (*peer, *http.Response) {
	r.t.Helper()
	p := r.connect(bytes)
	return p, p.answer()
}

// answer reads the head of the HTTP answer.
func (p *peer) answer() *http.Response {
	p.t.Helper()
	response, err := http.ReadResponse(p.in, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return response
}

// join begins a session when a connection is idle, with further lines in the header.
func (r *rig) join(header ...string) *peer {
	r.t.Helper()
	r.ready(1)
	p := r.connect(upgradeRequest("/v1/test", header...))
	p.expectUpgrade()
	return p
}

// expectUpgrade reads the answer to an upgrade request, which must be that the session begins.
func (p *peer) expectUpgrade() {
	p.t.Helper()
	if response := p.answer(); response.StatusCode != http.StatusSwitchingProtocols {
		p.t.Fatalf("got %s", response.Status)
	}
}

// expectUnavailable reads the answer to an upgrade request, which must be that there is no connection, for this reason.
func (p *peer) expectUnavailable(reason string) {
	p.t.Helper()
	response := p.answer()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
		p.t.Errorf("got %s, Retry-After %q; want 503 and 1", response.Status, response.Header.Get("Retry-After"))
	}
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != reason+"\n" {
		p.t.Errorf("the answer says %q, %v; want %q", body, err, reason)
	}
	p.expectEnd()
	_ = p.Close()
}
