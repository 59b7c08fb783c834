//go:build linux && !portableloop

package loop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/secure"
)

// This file is TLS on an event loop. The loop reads ciphertext from the socket and collects the ciphertext to send. In between,
// [tls.Conn] works on memory. When it wants to read from the network, it gets what the loop has just read, and once that is used up,
// a temporary error, after which tls.Conn can be read again later. All that is kept of a connection between events is in the
// tls.Conn (an incomplete record) and, encrypted, in Conn.out. So keeping, pausing and moving work as they do without TLS.

// sealedSize is the most, in bytes, that one read takes from the socket of a TLS connection. Decrypted together with an incomplete
// record from before, it is no more than readSize.
const sealedSize = readSize - maxRecord

// maxRecord is the size of the largest record in bytes (RFC 5246, section 6.2.3; those of TLS 1.3 are smaller).
const maxRecord = 5 + 16<<10 + 2<<10

// secured is the TLS part of a connection, and the transport of its tls.Conn. It is owned by the goroutine that calls Detach, and
// then by the loop's goroutine.
type secured struct {
	tls     *tls.Conn // static
	arrived []byte    // ciphertext that tls has not taken yet; empty between events
	sealed  []byte    // ciphertext from tls on its way to the socket or to Conn.out; empty between events
	early   []byte    // what was decrypted before the loop took the connection over
	drained bool      // no more ciphertext will arrive: the peer has ended the stream
	shut    bool      // close_notify was written, after which nothing may be sent
	err     error     // what has ended reading, nil for nothing yet; it is reported once everything before it was presented
}

// detachTLS is Detach for a TLS connection.
func detachTLS(tc *tls.Conn) (Socket, error) {
	line, ok := tc.NetConn().(*secure.Line)
	if !ok {
		_ = tc.NetConn().Close()
		return Socket{}, fmt.Errorf("cannot replace the transport of TLS over %T", tc.NetConn())
	}
	s := &secured{tls: tc}
	nc := line.Conn
	socket, err := Detach(nc)
	if err != nil {
		return Socket{}, err
	}
	socket.secured = s
	line.Conn = s
	// There will be no event for what tls has in its buffers.
	buf := make([]byte, 2<<10)
	for s.err == nil {
		n, more := s.open(buf)
		s.early = append(s.early, buf[:n]...)
		if !more {
			break
		}
	}
	return socket, nil
}

// open decrypts to b what has arrived. It returns more if there may be more than fits into b. Otherwise everything that has arrived
// was used up, or reading has ended with s.err.
func (s *secured) open(b []byte) (n int, more bool) {
	for n < len(b) {
		m, err := s.tls.Read(b[n:])
		n += m
		if err == errWouldBlock {
			return n, false
		}
		if err != nil {
			s.err = streamError(err)
			return n, false
		}
	}
	return n, true
}

// startTLS continues, on the loop, a connection that was detached: it sends what tls has written, and reports the end if that was read.
func (c *Conn) startTLS() {
	c.sendSealed()
	c.reportEnd()
}

// readTLS is read for a TLS connection.
func (c *Conn) readTLS(ending bool) {
	s, d := c.secured, &c.on.driver
	if s.err != nil { // reportEnd reports it later
		return
	}
	n, errno := c.receiveTo(d.buffer[:sealedSize])
	switch {
	case errno == unix.EAGAIN:
		return
	case errno != 0:
		c.failed = true
		c.endLater(errno)
		return
	case n == 0:
		s.drained = true
	default:
		s.arrived = d.buffer[:n]
		c.missed = ending || n == sealedSize
	}
	if d.opened == nil {
		d.opened = make([]byte, MaxHeld+readSize)
	}
	opened, _ := s.open(d.opened[MaxHeld:]) // there is room for everything
	s.arrived = nil
	c.sendSealed() // an answer to a KeyUpdate, or an alert
	if s.err != nil && c.cause != nil {
		s.err = c.cause
	}
	if opened > 0 { // otherwise there was nothing for the handler: perhaps a session ticket
		c.deliver(d.opened, opened)
	}
	if s.err != nil {
		c.reportEnd()
	} else if c.missed && !c.closed {
		c.interestChanged() // so that epoll reports it again, after the other connections
	}
}

// reportEnd reports the end of what can be received, if that was reached, and unless something has to be presented before it. It
// is called whenever this may have changed.
func (c *Conn) reportEnd() {
	if c.ended || c.paused || len(c.early) > 0 || c.secured.err == nil {
		return
	}
	err := c.secured.err
	if !errors.Is(err, io.EOF) {
		c.failed, c.out = true, nil
	}
	c.endLater(err)
}

// writeTLS is Write for a TLS connection.
func (c *Conn) writeTLS(b []byte) {
	s := c.secured
	if s.shut {
		c.fail(syscall.EPIPE) // as a socket would
		return
	}
	s.sealed = c.on.driver.sealed[:0]
	_, err := s.tls.Write(b)
	c.sendSealed()
	if err != nil && !c.failed {
		c.fail(err)
	}
}

// sendSealed sends what tls has written, and keeps what the socket does not take.
func (c *Conn) sendSealed() {
	s, d := c.secured, &c.on.driver
	b := s.sealed
	s.sealed = nil
	if cap(b) > cap(d.sealed) && cap(b) <= 2*readSize {
		d.sealed = b // to use its memory again
	}
	if len(b) == 0 || c.failed || c.closed {
		return
	}
	c.put(b)
}

// shutTLS sends close_notify: nothing follows (RFC 8446, section 6.1). It returns false if the socket has not taken it yet; flushed
// then calls it again.
func (c *Conn) shutTLS() bool {
	if s := c.secured; !s.shut {
		s.sealed = c.on.driver.sealed[:0]
		_ = s.tls.CloseWrite()
		c.sendSealed()
		s.shut = true
	}
	return len(c.out) == 0
}

// Read implements [net.Conn] for tls.
func (s *secured) Read(b []byte) (int, error) {
	if len(s.arrived) == 0 {
		if s.drained {
			return 0, io.EOF
		}
		return 0, errWouldBlock
	}
	n := copy(b, s.arrived)
	s.arrived = s.arrived[n:]
	return n, nil
}

// Write implements [net.Conn] for tls.
func (s *secured) Write(b []byte) (int, error) {
	if !s.shut { // tls answers a KeyUpdate even then
		s.sealed = append(s.sealed, b...)
	}
	return len(b), nil
}

// The rest of [net.Conn] has nothing to do: addresses are not needed any more, and nothing here waits.

func (s *secured) Close() error                     { return nil }
func (s *secured) LocalAddr() net.Addr              { return nil }
func (s *secured) RemoteAddr() net.Addr             { return nil }
func (s *secured) SetDeadline(time.Time) error      { return nil }
func (s *secured) SetReadDeadline(time.Time) error  { return nil }
func (s *secured) SetWriteDeadline(time.Time) error { return nil }

// errWouldBlock tells tls that there is nothing to read at present. It is a temporary [net.Error], after which tls can be read again.
var errWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing to read yet" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }
