//go:build linux && !portableloop

package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// This file is TLS on an event loop by crypto/tls, for the cipher suites that package tlsrecord does not know, and for connections that
// were made with another configuration. [tls.Conn] works on memory: when it wants to read from the network, it gets what the loop
// has just read, and once that is used up, a temporary error, after which tls.Conn can be read again later.

// cryptoTLS is a tls.Conn and its transport. It is owned as secured is.
type cryptoTLS struct {
	tls     *tls.Conn // static
	arrived []byte    // ciphertext that tls has not taken yet; empty between events
	sealed  []byte    // ciphertext from tls on its way to the socket or to Conn.out; empty between events
	drained bool      // no more ciphertext will arrive: the peer has ended the stream
	owed    int       // bytes of answers to KeyUpdates that the socket may not have taken, see maxOwed
	shut    bool      // close_notify was written
}

// maxOwed is the most, in bytes, that is kept of answers to KeyUpdates: some 600 answers. Otherwise a peer that asks for new keys again and
// again, and reads nothing, could make the proxy keep any number of them (RFC 8446, section 4.6.3).
const maxOwed = 16 << 10

// errUpdates ends such a connection.
var errUpdates = errors.New("the peer asks for new TLS keys without reading the answers")

// openBy decrypts to b what has arrived. It returns more if there may be more than fits into b. Otherwise everything that has arrived
// was used up, or reading has ended with s.err.
func (s *secured) openBy(t *cryptoTLS, b []byte) (n int, more bool) {
	for n < len(b) {
		m, err := t.tls.Read(b[n:])
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

// take returns what tls has written.
func (t *cryptoTLS) take() []byte {
	b := t.sealed
	t.sealed = nil
	return b
}

// readByCrypto opens what has arrived, and presents what it holds. If arrived is empty, the stream has ended.
func (c *Conn) readByCrypto(arrived []byte) {
	s, d := c.secured, &c.on.driver
	t := s.crypto
	t.arrived, t.drained = arrived, len(arrived) == 0
	if d.opened == nil {
		d.opened = make([]byte, MaxHeld+readSize)
	}
	opened, _ := s.openBy(t, d.opened[MaxHeld:]) // there is room for everything
	t.arrived = nil
	if len(t.sealed) > 0 {
		c.answerByCrypto()
	}
	if s.err != nil && c.cause != nil {
		s.err = c.cause
	}
	if opened > 0 {
		c.deliver(d.opened, opened)
	}
}

// answerByCrypto sends what tls says by itself: an answer to a KeyUpdate, or an alert.
func (c *Conn) answerByCrypto() {
	t := c.secured.crypto
	answer := t.take()
	c.sendSealed(answer)
	if t.owed += len(answer); len(c.out) == 0 {
		t.owed = 0
	}
	if t.owed > maxOwed && !c.failed {
		c.fail(errUpdates)
	}
}

// writeByCrypto is writeTLS.
func (c *Conn) writeByCrypto(b []byte) {
	t := c.secured.crypto
	t.sealed = c.on.driver.sealed[:0]
	_, err := t.tls.Write(b)
	c.sendSealed(t.take())
	if err != nil && !c.failed {
		c.fail(err)
	}
}

// Read implements [net.Conn] for tls.
func (t *cryptoTLS) Read(b []byte) (int, error) {
	if len(t.arrived) == 0 {
		if t.drained {
			return 0, io.EOF
		}
		return 0, errWouldBlock
	}
	n := copy(b, t.arrived)
	t.arrived = t.arrived[n:]
	return n, nil
}

// Write implements [net.Conn] for tls.
func (t *cryptoTLS) Write(b []byte) (int, error) {
	if !t.shut { // tls answers a KeyUpdate even then
		t.sealed = append(t.sealed, b...)
	}
	return len(b), nil
}

// The rest of [net.Conn] has nothing to do: addresses are no longer needed, and nothing here waits.

func (t *cryptoTLS) Close() error                     { return nil }
func (t *cryptoTLS) LocalAddr() net.Addr              { return nil }
func (t *cryptoTLS) RemoteAddr() net.Addr             { return nil }
func (t *cryptoTLS) SetDeadline(time.Time) error      { return nil }
func (t *cryptoTLS) SetReadDeadline(time.Time) error  { return nil }
func (t *cryptoTLS) SetWriteDeadline(time.Time) error { return nil }

// errWouldBlock tells tls that there is nothing to read at present. It is a temporary [net.Error], after which tls can be read again.
var errWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing to read yet" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }
