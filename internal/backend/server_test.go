package backend

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/secure"
	"github.com/wsbouncer/wsbouncer/internal/secure/securetest"
)

// server is an inference server whose connections the test plays, and which counts what it sees.
type server struct {
	t        testing.TB
	listener net.Listener
	answer   func(net.Conn, *handshake.Request) bool // answers an upgrade request; false if that was no upgrade
	serve    func(*peer)                             // plays a connection in place of the test
	accepted chan *peer                              // connections for the test to play
	tls      *tls.Config                             // nil without TLS
	ca       string                                  // file with its authority's certificate
	tasks    sync.WaitGroup

	mu       sync.Mutex
	refuse   bool       // close connections without an answer
	attempts int        // TCP connections ever
	open     []net.Conn // ever
	now      int        // upgraded connections that the server has not seen the end of
	peak     int
	closed   bool
}

func newServer(t testing.TB) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, listener: listener, accepted: make(chan *peer, 1024), answer: accept("")}
	if overTLS {
		authority := securetest.NewAuthority(t)
		s.tls, _ = authority.Loopback()
		s.ca = authority.File()
	}
	return s
}

// accept returns an answer that accepts the upgrade, with a subprotocol and bytes behind it.
func accept(protocol string, behind ...byte) func(net.Conn, *handshake.Request) bool {
	return func(nc net.Conn, req *handshake.Request) bool {
		_, err := nc.Write(append(req.AppendAccept(nil, protocol), behind...))
		return err == nil
	}
}

func (s *server) start() { s.tasks.Go(s.acceptAll) }

// target returns the server as the proxy dials it.
func (s *server) target() *handshake.Target {
	scheme := "ws://"
	if s.tls != nil {
		scheme = "wss://"
	}
	target, err := handshake.ParseTarget(scheme + s.listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.tls != nil {
		target.SetTLS(secure.Settings{CA: s.ca})
	}
	return target
}

func (s *server) acceptAll() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.attempts++
		s.open = append(s.open, nc)
		if s.closed || s.refuse {
			_ = nc.Close()
			s.mu.Unlock()
			continue
		}
		s.mu.Unlock()
		s.tasks.Go(func() { s.upgrade(nc) })
	}
}

func (s *server) upgrade(nc net.Conn) {
	if s.tls != nil {
		nc = tls.Server(nc, s.tls)
	}
	req, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.now++
	s.peak = max(s.peak, s.now)
	s.mu.Unlock()
	if !s.answer(nc, req) {
		s.ended()
		return
	}
	_ = nc.SetDeadline(time.Now().Add(testTimeout))
	p := &peer{Conn: nc, t: s.t, in: bufio.NewReader(nc)}
	if s.serve == nil {
		s.accepted <- p
		return
	}
	s.serve(p)
	s.ended()
	_ = nc.Close()
}

func (s *server) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
}

// refusing has the server close connections without an answer, or stop doing so.
func (s *server) refusing(refuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

func (s *server) counts() (attempts, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts, s.peak
}

// close cuts all connections.
func (s *server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, nc := range s.open {
		_ = nc.Close()
	}
	s.mu.Unlock()
	s.tasks.Wait()
}

// echo answers every message, and closes in order.
func echo(p *peer) {
	for {
		h, payload, err := p.next()
		if err != nil {
			return
		}
		if _, err := p.Conn.Write(frame.Append(nil, frame.Header{Fin: h.Fin, Opcode: h.Opcode}, payload)); err != nil || h.Opcode == frame.Close {
			return
		}
	}
}

// peer is the server's end of a connection. It answers nothing by itself.
type peer struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

// wire returns a server's frame.
func wire(fin bool, op frame.Opcode, payload string) []byte {
	return frame.Append(nil, frame.Header{Fin: fin, Opcode: op}, []byte(payload))
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.Conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(op frame.Opcode, payload string) {
	p.t.Helper()
	p.write(wire(true, op, payload))
}

func (p *peer) sendClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.send(frame.Close, string(frame.AppendClosePayload(nil, code, reason)))
}

// next receives one frame, its payload unmasked.
func (p *peer) next() (frame.Header, []byte, error) {
	var head []byte
	for {
		c, err := p.in.ReadByte()
		if err != nil {
			return frame.Header{}, nil, err
		}
		head = append(head, c)
		h, size, err := frame.ParseHeader(head)
		switch {
		case err != nil:
			return h, nil, err
		case size == 0:
			continue
		case !h.Masked:
			return h, nil, errors.New("frame without a mask")
		}
		payload := make([]byte, h.Length)
		_, err = io.ReadFull(p.in, payload)
		frame.ApplyMask(payload, h.Mask)
		return h, payload, err
	}
}

func (p *peer) expect(op frame.Opcode, payload string) {
	p.t.Helper()
	h, got, err := p.next()
	if err != nil || h.Opcode != op || string(got) != payload {
		p.t.Fatalf("got %v %q, %v; want %v %q", h.Opcode, got, err, op, payload)
	}
}

func (p *peer) expectClose(code frame.CloseCode, reason string) {
	p.t.Helper()
	p.expect(frame.Close, string(frame.AppendClosePayload(nil, code, reason)))
}

// expectEnd waits for the end of the stream, with nothing before it. A reset is an end as well.
func (p *peer) expectEnd() {
	p.t.Helper()
	rest, err := io.ReadAll(p.in)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("got %q, %v; want the end of the stream", rest, err)
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
