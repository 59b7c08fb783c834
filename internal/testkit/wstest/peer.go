package wstest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// pingPayload is the size of the payload of the proxy's own pings, in bytes.
const pingPayload = 8

// Peer is one end of a WebSocket connection, a client or a server. It sends and receives what the test tells it to, in frames
// or in pieces of frames, and answers nothing by itself.
//
// One goroutine may send while another receives. Methods of Peer that return an error may be called from any goroutine.
type Peer struct {
	net.Conn
	t       testing.TB
	in      *bufio.Reader
	Request *handshake.Request // of a server: the upgrade request that it accepted; nil for a client
}

// newPeer returns the end of a connection. request is that of a server.
func newPeer(t testing.TB, nc net.Conn, request *handshake.Request) *Peer {
	_ = nc.SetDeadline(Deadline())
	return &Peer{Conn: nc, t: t, in: bufio.NewReaderSize(nc, 64<<10), Request: request}
}

// dialed returns the client's end of a connection, which is closed when the test ends, and sends some bytes.
func dialed(t testing.TB, p *Peer, err error, bytes string) *Peer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.TCP().Close() })
	p.SendBytes([]byte(bytes))
	return p
}

// Read implements [io.Reader]. It returns buffered bytes first.
func (p *Peer) Read(b []byte) (int, error) { return p.in.Read(b) }

// Encode returns a frame as this peer sends it.
func (p *Peer) Encode(fin bool, op frame.Opcode, payload []byte) []byte {
	if p.Request == nil {
		return ClientFrame(fin, op, payload)
	}
	return ServerFrame(fin, op, payload)
}

// SendBytes sends bytes as they are, in one write.
func (p *Peer) SendBytes(parts ...[]byte) {
	p.t.Helper()
	if _, err := p.Write(slices.Concat(parts...)); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// Send sends one unfragmented frame.
func (p *Peer) Send(op frame.Opcode, payload string) {
	p.t.Helper()
	p.SendBytes(p.Encode(true, op, []byte(payload)))
}

// SendClose sends a close frame.
func (p *Peer) SendClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.Send(frame.Close, string(frame.AppendClosePayload(nil, code, reason)))
}

// Next receives one frame and unmasks its payload. The error is io.EOF if the stream ends before the frame, and
// io.ErrUnexpectedEOF if it ends inside.
func (p *Peer) Next() (frame.Header, []byte, error) {
	var head []byte
	for {
		c, err := p.in.ReadByte()
		if err != nil {
			if len(head) > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return frame.Header{}, nil, err
		}
		head = append(head, c)
		h, size, err := frame.ParseHeader(head)
		switch fromClient := p.Request != nil; {
		case err != nil:
			return h, nil, err
		case size == 0:
			continue
		case h.Masked != fromClient:
			return h, nil, errors.New("a server's frame is masked, or a client's is not")
		}
		payload := make([]byte, h.Length)
		if n, err := io.ReadFull(p.in, payload); err != nil {
			return h, payload[:n], io.ErrUnexpectedEOF
		}
		if h.Masked {
			frame.ApplyMask(payload, h.Mask)
		}
		return h, payload, nil
	}
}

// Expect receives one frame and checks it. A data frame from a client must carry the client's own mask.
func (p *Peer) Expect(op frame.Opcode, payload string) {
	p.t.Helper()
	if h := p.expect(op, payload); h.Masked && h.Opcode <= frame.Binary && h.Mask != Mask {
		p.t.Fatalf("received a frame with the mask %x; the client sent %x", h.Mask, Mask)
	}
}

// ExpectOwn receives one frame and checks it. The proxy may have made that frame itself.
func (p *Peer) ExpectOwn(op frame.Opcode, payload string) {
	p.t.Helper()
	p.expect(op, payload)
}

func (p *Peer) expect(op frame.Opcode, payload string) frame.Header {
	p.t.Helper()
	h, got, err := p.Next()
	switch {
	case err != nil:
		p.t.Fatalf("received %v instead of %v %.60q", err, op, payload)
	case h.Opcode != op || string(got) != payload:
		p.t.Fatalf("received %v %.60q (%d bytes); want %v %.60q (%d bytes)", h.Opcode, got, len(got), op, payload, len(payload))
	}
	return h
}

// ExpectPing receives one of the proxy's own pings and returns its payload.
func (p *Peer) ExpectPing() string {
	p.t.Helper()
	h, payload, err := p.Next()
	if err != nil || h.Opcode != frame.Ping || len(payload) != pingPayload {
		p.t.Fatalf("received %v %q, %v; want a ping", h.Opcode, payload, err)
	}
	return string(payload)
}

// AnswerPing receives one of the proxy's own pings and answers it.
func (p *Peer) AnswerPing() {
	p.t.Helper()
	p.Send(frame.Pong, p.ExpectPing())
}

// AnswerPings answers all pings up to the next frame of another kind.
func (p *Peer) AnswerPings() {
	p.t.Helper()
	for {
		b, err := p.in.Peek(1)
		if err != nil {
			p.t.Fatal(err)
		}
		if frame.Opcode(b[0]&0xf) != frame.Ping {
			return
		}
		p.AnswerPing()
	}
}

// Ask sends a text to a server that echoes, and expects the echo.
func (p *Peer) Ask(question string) {
	p.t.Helper()
	p.Send(frame.Text, question)
	p.Expect(frame.Text, question)
}

// ExpectClose receives a close frame and checks its code and reason.
func (p *Peer) ExpectClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.Expect(frame.Close, string(frame.AppendClosePayload(nil, code, reason)))
}

// ExpectEnd waits for the end of the stream, by FIN or RST, and checks that nothing comes before it.
func (p *Peer) ExpectEnd() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("received %.60q, %v; want the end of the stream", rest, err)
	}
}

// ExpectBytes receives as many bytes as it wants and compares them as they are on the wire.
func (p *Peer) ExpectBytes(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); err != nil {
		p.t.Fatalf("received %v after %d of %d bytes", err, n, len(want))
	}
	if string(got) != string(want) {
		p.t.Fatalf("received other bytes than the %d that were sent", len(want))
	}
}

// Reset ends the connection with RST. Any goroutine may call it.
func (p *Peer) Reset() {
	_ = p.TCP().SetLinger(0)
	_ = p.TCP().Close()
}

// TCP returns the TCP connection, below TLS if there is any.
func (p *Peer) TCP() *net.TCPConn {
	if secured, ok := p.Conn.(*tls.Conn); ok {
		return secured.NetConn().(*net.TCPConn)
	}
	return p.Conn.(*net.TCPConn)
}

// CloseNormally closes the connection as a client does: it sends a close frame, and expects its echo and the end of the stream.
func (p *Peer) CloseNormally() {
	p.t.Helper()
	p.SendClose(frame.NormalClosure, "")
	p.ExpectClose(frame.NormalClosure, "")
	p.ExpectEnd()
	_ = p.Close()
}

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
	return DialTLS(t, address, nil, bytes)
}

// DialTLS is Dial over TLS, unless config is nil.
func DialTLS(t testing.TB, address string, config *tls.Config, bytes string) *Peer {
	t.Helper()
	p, err := TryDialTLS(t, address, config)
	return dialed(t, p, err, bytes)
}

// TryDial connects to an address. The caller closes the connection. Any goroutine may call it.
func TryDial(t testing.TB, address string) (*Peer, error) { return TryDialTLS(t, address, nil) }

// DialFrom is Dial from an address of this machine, such as 127.0.0.2. It skips the test where there is no such address.
func DialFrom(t testing.TB, from, address, bytes string) *Peer {
	t.Helper()
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	return dialed(t, newPeer(t, nc, nil), nil, bytes)
}

// TryDialTLS is TryDial over TLS, unless config is nil. The TLS handshake begins with the first read or write.
func TryDialTLS(t testing.TB, address string, config *tls.Config) (*Peer, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	if config != nil {
		nc = tls.Client(nc, config)
	}
	return newPeer(t, nc, nil), nil
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

// Mask is the masking key of all test clients. A server that receives it knows that the proxy relayed the client's own bytes.
const Mask = 0x1f2e3d4c

// ClientFrame returns a frame as a test client sends it.
func ClientFrame[Text ~string | ~[]byte](fin bool, op frame.Opcode, payload Text) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op, Masked: true, Mask: Mask}, []byte(payload))
}

// ServerFrame returns a frame as a server sends it.
func ServerFrame[Text ~string | ~[]byte](fin bool, op frame.Opcode, payload Text) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op}, []byte(payload))
}

// Noise returns n bytes that repeat nowhere. A seed always gives the same bytes.
func Noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}
