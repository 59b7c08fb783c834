package wstest

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
)

// UpgradeRequest returns a valid upgrade request. Lines are added to its header.
func UpgradeRequest(path string, lines ...string) string {
	text := "GET " + path + " HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, line := range lines {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

// Dial connects to an address and sends some bytes. The connection is closed when the test ends.
func Dial(t testing.TB, address, bytes string) *Peer {
	t.Helper()
	p, err := TryDial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.SendBytes([]byte(bytes))
	return p
}

// DialTLS is Dial over TLS.
func DialTLS(t testing.TB, address string, config *tls.Config, bytes string) *Peer {
	t.Helper()
	p, err := TryDialTLS(t, address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.TCP().Close() })
	p.SendBytes([]byte(bytes))
	return p
}

// TryDial connects to an address. The caller closes the connection. Any goroutine may call it.
func TryDial(t testing.TB, address string) (*Peer, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return newPeer(t, nc, bufio.NewReaderSize(nc, 64<<10), nil), nil
}

// DialFrom is Dial from an address of this machine, such as 127.0.0.2. It skips the test where there is no such address.
func DialFrom(t testing.TB, from, address, bytes string) *Peer {
	t.Helper()
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	p := newPeer(t, nc, bufio.NewReaderSize(nc, 64<<10), nil)
	p.SendBytes([]byte(bytes))
	return p
}

// TryDialTLS is TryDial over TLS. The TLS handshake begins with the first read or write.
func TryDialTLS(t testing.TB, address string, config *tls.Config) (*Peer, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(nc, config)
	return newPeer(t, conn, bufio.NewReaderSize(conn, 64<<10), nil), nil
}

// Response reads the header of an HTTP response.
func (p *Peer) Response() *http.Response {
	p.t.Helper()
	response, err := p.TryResponse()
	if err != nil {
		p.t.Fatal(err)
	}
	return response
}

// TryResponse reads the header of an HTTP response.
func (p *Peer) TryResponse() (*http.Response, error) { return http.ReadResponse(p.in, nil) }

// ExpectUpgrade reads the response to an upgrade request and checks that the server accepts it.
func (p *Peer) ExpectUpgrade() {
	p.t.Helper()
	if response := p.Response(); response.StatusCode != http.StatusSwitchingProtocols {
		p.t.Fatalf("received %s; want 101", response.Status)
	}
}
