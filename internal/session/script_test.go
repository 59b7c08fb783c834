package session

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/secure"
	"github.com/wsbouncer/wsbouncer/internal/secure/securetest"
)

// script is an inference server whose connections the test plays itself.
type script struct {
	t        testing.TB
	listener net.Listener
	protocol string                                      // the subprotocol it chooses
	greeting []byte                                      // sent together with the answer to the upgrade request
	refuse   func(*handshake.Request) *handshake.Refusal // answers an upgrade request otherwise, unless it returns nil
	serve    func(*peer)                                 // plays a connection in place of the test
	tls      *tls.Config                                 // nil without TLS
	ca       string                                      // file with its authority's certificate
	version  uint16                                      // the highest version of TLS; 0 for the highest there is

	accepted chan *peer   // connections for the test to play
	upgrades atomic.Int64 // requests for one
	tasks    sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn // guarded by mu
	closed   bool       // guarded by mu
}

func (s *script) start() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.listener = listener
	s.accepted = make(chan *peer, 256)
	if overTLS {
		authority := securetest.NewAuthority(s.t)
		s.tls, _ = authority.Loopback()
		s.tls.MaxVersion, s.ca = s.version, authority.File()
	}
	s.tasks.Go(s.accept)
}

// target returns the server as the proxy dials it.
func (s *script) target() *handshake.Target {
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
	target.Protocol = s.protocol
	return target
}

func (s *script) accept() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open = append(s.open, nc)
		if s.closed {
			_ = nc.Close()
		}
		s.mu.Unlock()
		s.tasks.Go(func() { s.upgrade(nc) })
	}
}

func (s *script) upgrade(nc net.Conn) {
	if s.tls != nil {
		nc = tls.Server(nc, s.tls)
	}
	req, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	if err != nil {
		return
	}
	s.upgrades.Add(1)
	if s.refuse != nil {
		if refusal := s.refuse(req); refusal != nil {
			handshake.Refuse(nc, refusal)
			return
		}
	}
	p := newPeer(s.t, nc, bufio.NewReaderSize(nc, 64<<10), true)
	p.target, p.header = req.URL.RequestURI(), req.Header
	if _, err := nc.Write(append(req.AppendAccept(nil, s.protocol), s.greeting...)); err != nil {
		return
	}
	if s.serve != nil {
		s.serve(p)
		_ = nc.Close()
		return
	}
	s.accepted <- p
}

// take returns the next connection for the test to play.
func (s *script) take() *peer {
	s.t.Helper()
	select {
	case p := <-s.accepted:
		return p
	case <-time.After(testTimeout):
		s.t.Fatal("no connection to the server")
		return nil
	}
}

// close cuts all connections.
func (s *script) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, nc := range s.open {
		_ = nc.Close()
	}
	s.mu.Unlock()
	s.tasks.Wait()
}

// echo answers every frame with the same one, until its client closes.
func echo(p *peer) {
	for {
		h, payload, err := p.next()
		if err != nil {
			return
		}
		if h.Opcode == frame.Pong {
			continue
		}
		if h.Opcode == frame.Ping {
			h.Opcode = frame.Pong
		}
		if _, err := p.Conn.Write(p.encode(h.Fin, h.Opcode, payload)); err != nil || h.Opcode == frame.Close {
			return
		}
	}
}
