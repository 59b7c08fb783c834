package session

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// peer is one end of a WebSocket connection, a client or a server, that sends and receives what the test tells it, frame
// by frame or in pieces of frames. It answers nothing by itself.
type peer struct {
	net.Conn
	t      testing.TB
	in     *bufio.Reader
	server bool // it sends without masks, and receives with them
	// Of a server: what the proxy has asked for.
	target string
	header http.Header
}

func newPeer(t testing.TB, nc net.Conn, in *bufio.Reader, server bool) *peer {
	_ = nc.SetDeadline(time.Now().Add(testTimeout))
	return &peer{Conn: nc, t: t, in: in, server: server}
}

// Read implements [io.Reader], with what was buffered first.
func (p *peer) Read(b []byte) (int, error) { return p.in.Read(b) }

// key is the masking key of all the tests' clients; that it arrives shows that nothing was masked anew.
const key = 0x1f2e3d4c

// encode returns a frame as this end sends it.
func (p *peer) encode(fin bool, op frame.Opcode, payload []byte) []byte {
	h := frame.Header{Fin: fin, Opcode: op}
	if !p.server {
		h.Masked, h.Mask = true, key
	}
	return frame.Append(nil, h, payload)
}

func (p *peer) write(parts ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	if _, err := p.Conn.Write(all); err != nil {
		p.t.Fatalf("writing: %v", err)
	}
}

func (p *peer) send(op frame.Opcode, payload string) {
	p.t.Helper()
	p.write(p.encode(true, op, []byte(payload)))
}

func (p *peer) sendClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.write(p.encode(true, frame.Close, frame.AppendClosePayload(nil, code, reason)))
}

// next receives one frame, its payload unmasked.
func (p *peer) next() (frame.Header, []byte, error) {
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
		if err != nil {
			return h, nil, err
		}
		if size == 0 {
			continue
		}
		if h.Masked != p.server {
			return h, nil, errors.New("frame masked that should not be, or not masked that should be")
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

// expect receives one frame, which must be this.
func (p *peer) expect(op frame.Opcode, payload string) {
	p.t.Helper()
	h, got, err := p.next()
	switch {
	case err != nil:
		p.t.Fatalf("%v instead of %v %.60q", err, op, payload)
	case h.Opcode != op || string(got) != payload:
		p.t.Fatalf("got %v %.60q (%d bytes); want %v %.60q (%d bytes)", h.Opcode, got, len(got), op, payload, len(payload))
	case p.server && h.Opcode <= frame.Binary && h.Mask != key:
		p.t.Fatalf("frame with the mask %x; the client's was %x", h.Mask, key)
	}
}

// expectOwn receives one frame that the proxy has made itself.
func (p *peer) expectOwn(op frame.Opcode, payload string) {
	p.t.Helper()
	h, got, err := p.next()
	if err != nil || h.Opcode != op || string(got) != payload {
		p.t.Fatalf("got %v %.60q, %v; want %v %.60q", h.Opcode, got, err, op, payload)
	}
}

// expectClose receives a close frame, which must have this code and reason.
func (p *peer) expectClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.expect(frame.Close, string(frame.AppendClosePayload(nil, code, reason)))
}

// expectEnd waits for the end of the stream, with nothing before it. A reset is an end as well.
func (p *peer) expectEnd() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("got %q, %v; want the end of the stream", rest[:min(len(rest), 60)], err)
	}
}

// expectBytes receives bytes as they are on the wire.
func (p *peer) expectBytes(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); err != nil {
		p.t.Fatalf("%v after %d of %d bytes", err, n, len(want))
	}
	if string(got) != string(want) {
		p.t.Fatalf("got other bytes than the %d that were sent", len(want))
	}
}

// reset ends the connection with TCP's RST.
func (p *peer) reset() {
	_ = p.tcp().SetLinger(0)
	_ = p.tcp().Close()
}

// tcp returns the connection that carries the others.
func (p *peer) tcp() *net.TCPConn {
	if secured, ok := p.Conn.(*tls.Conn); ok {
		return secured.NetConn().(*net.TCPConn)
	}
	return p.Conn.(*net.TCPConn)
}

// closeNormally plays a client's part in a closing that it starts.
func (p *peer) closeNormally() {
	p.t.Helper()
	p.sendClose(frame.NormalClosure, "")
	p.expectClose(frame.NormalClosure, "")
	p.expectEnd()
	_ = p.Close()
}
