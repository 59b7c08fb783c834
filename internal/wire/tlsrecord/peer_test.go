package tlsrecord_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for linkname

	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// suites13 are those that crypto/tls offers with TLS 1.3, which its configuration does not choose.
//
//go:linkname suites13 crypto/tls.defaultCipherSuitesTLS13
var suites13 []uint16

// kind is a kind of connection.
type kind struct {
	version, suite uint16
	client         bool // the end that package tlsrecord continues
}

// kinds are all that package tlsrecord knows.
func kinds() []kind {
	var all []kind
	for _, client := range []bool{false, true} {
		for _, suite := range []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256} {
			all = append(all, kind{tls.VersionTLS13, suite, client})
		}
		for _, suite := range []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		} {
			all = append(all, kind{tls.VersionTLS12, suite, client})
		}
	}
	return all
}

func (k kind) String() string {
	if k.client {
		return tls.VersionName(k.version) + " client " + tls.CipherSuiteName(k.suite)
	}
	return tls.VersionName(k.version) + " server " + tls.CipherSuiteName(k.suite)
}

// wire is one direction of a connection in memory, without a limit.
type wire struct {
	mu     sync.Mutex
	bytes  []byte
	closed bool
	more   sync.Cond
}

func newWire() *wire {
	w := &wire{}
	w.more.L = &w.mu
	return w
}

func (w *wire) write(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes = append(w.bytes, b...)
	w.more.Broadcast()
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.more.Broadcast()
}

// take returns everything that has been written and not read.
func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bytes
	w.bytes = nil
	return b
}

// pipe is one end of a connection in memory.
type pipe struct{ in, out *wire }

func (p *pipe) Read(b []byte) (int, error) {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	for len(p.in.bytes) == 0 {
		if p.in.closed {
			return 0, io.EOF
		}
		p.in.more.Wait()
	}
	n := copy(b, p.in.bytes)
	p.in.bytes = p.in.bytes[n:]
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error)      { p.out.write(b); return len(b), nil }
func (p *pipe) Close() error                     { p.in.close(); p.out.close(); return nil }
func (p *pipe) LocalAddr() net.Addr              { return nil }
func (p *pipe) RemoteAddr() net.Addr             { return nil }
func (p *pipe) SetDeadline(time.Time) error      { return nil }
func (p *pipe) SetReadDeadline(time.Time) error  { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

// connection is a connection between package tlsrecord and crypto/tls.
type connection struct {
	records  *tlsrecord.Conn
	toUs     *wire     // what the peer has sent
	toPeer   *wire     // what we send
	peer     *tls.Conn // the other end
	original *tls.Conn // this end by crypto/tls, in the state of records
	line     *secure.Line
}

// ends returns configurations for the kind.
func ends(tb testing.TB, k kind) (server, client *tls.Config) {
	server, client = securetest.NewAuthority(tb).Loopback()
	client.MinVersion, client.MaxVersion = k.version, k.version
	client.CipherSuites = []uint16{k.suite}
	server.DynamicRecordSizingDisabled, client.DynamicRecordSizingDisabled = true, true
	return secure.ForServer(server), client
}

// connect returns a connection of the kind. Both ends have sent a byte.
func connect(tb testing.TB, k kind, server, client *tls.Config) connection {
	tb.Helper()
	if k.version == tls.VersionTLS13 {
		old := suites13
		suites13 = []uint16{k.suite}
		defer func() { suites13 = old }()
	}
	toServer, toClient := newWire(), newWire()
	ended := make(chan struct{})
	var serverEnd *tls.Conn
	go func() {
		defer close(ended)
		serverEnd = secure.Server(&pipe{in: toServer, out: toClient}, server, nil)
		if _, err := serverEnd.Read(make([]byte, 1)); err != nil {
			tb.Error(err)
			toClient.close()
		}
		_, _ = serverEnd.Write([]byte("s"))
	}()
	clientEnd, err := secure.Client(context.Background(), &pipe{in: toClient, out: toServer}, client)
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = clientEnd.Write([]byte("c"))
	if _, err := clientEnd.Read(make([]byte, 1)); err != nil {
		tb.Fatal(err)
	}
	<-ended
	c := connection{toUs: toClient, toPeer: toServer, peer: serverEnd, original: clientEnd}
	if !k.client {
		c = connection{toUs: toServer, toPeer: toClient, peer: clientEnd, original: serverEnd}
	}
	c.line = c.original.NetConn().(*secure.Line)
	var partial []byte
	if c.records, partial = c.line.Release(c.original); c.records == nil || len(partial) > 0 {
		tb.Fatalf("%v: the record layer is not handed over: %v", k, c.original.ConnectionState())
	}
	if c.records.Version() != k.version || c.records.Suite() != k.suite {
		tb.Fatalf("%v: got %x, %x", k, c.records.Version(), c.records.Suite())
	}
	return c
}
