package wstest

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Server is a WebSocket server whose connections the test plays. It counts what it sees.
type Server struct {
	// Static after Listen.
	Protocol string // the subprotocol that its target asks for, and that the default answer selects; "" for none
	MaxTLS   uint16 // the highest version of TLS; 0 for the highest that Go has

	// Static after Start.
	Answer Answer      // default: accept
	Serve  func(*Peer) // plays each connection on a goroutine of its own; default: Take gives it to the test

	// Set by Listen. The test may change the configuration of TLS before Start.
	Listener net.Listener
	TLS      *tls.Config // nil without TLS
	CA       string      // file with the certificate of the authority that signed the server's

	t        testing.TB
	accepted chan chan *Peer // one for each answer, in the order in which they began; nil comes out of it when the request was refused
	tasks    sync.WaitGroup

	mu       sync.Mutex
	hangUp   bool       // guarded by mu
	attempts int        // guarded by mu: TCP connections so far
	upgrades int        // guarded by mu: upgrade requests so far
	conns    []net.Conn // guarded by mu: all so far
	open     int        // guarded by mu: upgraded connections whose end Serve has not seen
	peak     int        // guarded by mu: the highest value of open
}

// Listen opens the server's socket, with TLS or without. It is called first, once.
func (s *Server) Listen(t testing.TB, withTLS bool) {
	t.Helper()
	s.t, s.Listener, s.accepted = t, Listen(t), make(chan chan *Peer, 1024)
	if s.Answer == nil {
		s.Answer = Accept(s.Protocol)
	}
	if withTLS {
		authority := securetest.NewAuthority(t)
		s.TLS, _ = authority.Loopback()
		s.TLS.MaxVersion, s.CA = s.MaxTLS, authority.File()
	}
}

// Start begins to accept connections. The test that calls it also calls Close.
func (s *Server) Start() { s.tasks.Go(s.accept) }

// Target returns the server as the proxy dials it.
func (s *Server) Target() *handshake.Target {
	scheme := "ws://"
	if s.TLS != nil {
		scheme = "wss://"
	}
	target, err := handshake.ParseTarget(scheme + s.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.TLS != nil {
		target.SetTLS(secure.Settings{CA: s.CA})
	}
	target.Protocol = s.Protocol
	return target
}

func (s *Server) accept() {
	for {
		nc, err := s.Listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.attempts++
		s.conns = append(s.conns, nc)
		if s.hangUp {
			_ = nc.Close()
			s.mu.Unlock()
			continue
		}
		s.mu.Unlock()
		s.tasks.Go(func() { s.upgrade(nc) })
	}
}

func (s *Server) upgrade(nc net.Conn) {
	if s.TLS != nil {
		nc = tls.Server(nc, s.TLS)
	}
	req, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.upgrades++
	s.open++
	s.peak = max(s.peak, s.open)
	s.mu.Unlock()
	var place chan *Peer
	if s.Serve == nil {
		place = make(chan *Peer, 1) // before the answer, after which the proxy may dial the next connection
		s.accepted <- place
	}
	if !s.Answer(nc, req) {
		if s.Serve == nil {
			close(place)
		}
		s.ended()
		return
	}
	p := newPeer(s.t, nc, req)
	if s.Serve == nil {
		place <- p
		return
	}
	s.Serve(p)
	s.ended()
	_ = nc.Close()
}

func (s *Server) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// Take returns the next connection for the test to play, in the order in which they were accepted.
func (s *Server) Take() *Peer {
	s.t.Helper()
	for {
		place := Receive(s.t, s.accepted, "the server is dialed")
		if p := Receive(s.t, place, "the server answers"); p != nil {
			return p
		}
	}
}

// HangUp tells the server whether to close new TCP connections at once.
func (s *Server) HangUp(hangUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUp = hangUp
}

// Counts are what a server has seen so far.
type Counts struct {
	Attempts int // TCP connections
	Upgrades int // upgrade requests
	Peak     int // the most upgraded connections at the same time; Serve ends them
}

// Counts returns what the server has seen so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{s.attempts, s.upgrades, s.peak}
}

// HangUpAll closes all connections, and those that come. The port stays the server's: what still dials it meets no server of another test.
func (s *Server) HangUpAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUp = true
	for _, nc := range s.conns {
		_ = nc.Close()
	}
}

// Close closes all connections and waits for the server's goroutines.
func (s *Server) Close() {
	_ = s.Listener.Close()
	s.HangUpAll()
	s.tasks.Wait()
}

// Echo serves a connection: it answers pings, and every other frame with the same frame, until the client closes.
func Echo(p *Peer) {
	for {
		h, payload, err := p.Next()
		if err != nil {
			return
		}
		if h.Opcode == frame.Pong {
			continue
		}
		if h.Opcode == frame.Ping {
			h.Opcode = frame.Pong
		}
		if _, err := p.Write(p.Encode(h.Fin, h.Opcode, payload)); err != nil || h.Opcode == frame.Close {
			return
		}
	}
}

// Answer answers an upgrade request, and reports whether it accepted it. The server calls it on a goroutine of the connection.
type Answer func(net.Conn, *handshake.Request) (accepted bool)

// Accept accepts every request, selects a subprotocol ("" for none), and sends a greeting in the same write.
func Accept(protocol string, greeting ...byte) Answer {
	return func(nc net.Conn, req *handshake.Request) bool {
		_, err := nc.Write(append(req.AppendAccept(nil, protocol), greeting...))
		return err == nil
	}
}

// AcceptUnless accepts every request for which refusal returns nil, and answers the others with what it returns.
func AcceptUnless(refusal func(*handshake.Request) *handshake.Refusal) Answer {
	accept := Accept("")
	return func(nc net.Conn, req *handshake.Request) bool {
		if refused := refusal(req); refused != nil {
			handshake.Refuse(nc, refused)
			return false
		}
		return accept(nc, req)
	}
}

// Refuse refuses every request with an HTTP status and a line of text.
func Refuse(status int, reason string) Answer {
	return AcceptUnless(func(*handshake.Request) *handshake.Refusal {
		return &handshake.Refusal{Status: status, Reason: reason}
	})
}

// Hang answers nothing. It returns when the client ends the connection.
func Hang(nc net.Conn, _ *handshake.Request) bool {
	_, _ = nc.Read(make([]byte, 1))
	return false
}
