//go:build linux && !portableloop

package loop

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// This file is TLS on an event loop. The loop reads ciphertext from the socket into its buffer, opens it there, and presents what it
// holds; what is written is sealed into another buffer of the loop. All that is kept of a connection between events is its record
// layer, the beginning of a record that has not arrived whole, and, encrypted, what the socket has not taken, in Conn.out. So
// keeping, pausing and moving work as they do without TLS.
//
// The record layer is that of package tlsrecord, or, for what that does not know, crypto/tls itself (secured_crypto_epoll.go).

// secured is the TLS part of a connection. It is owned by the goroutine that calls Detach, and then by the loop's goroutine.
type secured struct {
	records *tlsrecord.Conn // static; nil if crypto keeps the connection
	crypto  *cryptoTLS      // static
	partial []byte          // the beginning of a record; with crypto, that has it
	unsent  []byte          // what crypto/tls has written when the loop took the connection over; nil once it is sent
	shut    bool            // close_notify was written, after which nothing may be sent
	err     error           // what has ended reading, nil for nothing yet; it is reported once everything before it was presented
}

// detachTLS is Detach for a TLS connection.
func detachTLS(tc *tls.Conn) (Socket, error) {
	line, ok := tc.NetConn().(*secure.Line)
	if !ok {
		_ = tc.NetConn().Close()
		return Socket{}, fmt.Errorf("cannot replace the transport of TLS over %T", tc.NetConn())
	}
	socket, err := Detach(line.Conn)
	if err != nil {
		return Socket{}, err
	}
	// There will be no event for what tc has decrypted.
	memory := &cryptoTLS{tls: tc}
	line.Conn = memory
	s := &secured{}
	buf := make([]byte, 2<<10)
	for s.err == nil {
		n, more := s.openBy(memory, buf)
		socket.early = append(socket.early, buf[:n]...)
		if !more {
			break
		}
	}
	s.unsent = memory.take() // an answer to a KeyUpdate, or an alert
	if records, partial := line.Release(tc); records != nil && s.err == nil {
		s.records, s.partial = records, partial
	} else {
		s.crypto = memory
	}
	socket.secured = s
	return socket, nil
}

// startTLS continues, on the loop, a connection that was detached: it sends what crypto/tls has written, and reports the end if that was
// read.
func (c *Conn) startTLS() {
	s := c.secured
	c.sendSealed(s.unsent)
	s.unsent = nil
	c.reportEnd()
}

// readTLS is read and readAhead for a TLS connection. It reads at most size bytes beside the beginning of a record.
func (c *Conn) readTLS(ending bool, size int) {
	s, d := c.secured, &c.on.driver
	if s.err != nil { // reportEnd reports it later
		return
	}
	kept := copy(d.buffer[MaxHeld:], s.partial)
	arrived := d.buffer[MaxHeld+kept:]
	arrived = arrived[:min(len(arrived), size)]
	if s.crypto != nil {
		arrived = arrived[:min(len(arrived), readSize-tlsrecord.MaxRecord)] // what that has kept of a record comes before it
	}
	n, errno := c.receiveTo(arrived)
	switch {
	case errno == unix.EAGAIN:
		return
	case errno != 0:
		c.failed = true
		c.endLater(errno)
		return
	case n > 0:
		c.missed = ending || n == len(arrived)
	}
	if s.crypto != nil {
		c.readByCrypto(arrived[:n])
	} else {
		c.open(MaxHeld+kept, n)
	}
	if s.err != nil {
		c.reportEnd()
	} else if c.missed && !c.closed {
		c.interestChanged() // so that epoll reports it again, after the other connections
	}
}

// open opens the records in the loop's buffer, of which n bytes have just arrived, up to which the beginning of a record was kept,
// and presents what they hold. If n is 0, the stream has ended.
func (c *Conn) open(at, n int) {
	s, d := c.secured, &c.on.driver
	if n == 0 {
		s.err = io.EOF
		if len(s.partial) > 0 {
			s.err = streamError(io.ErrUnexpectedEOF)
		}
		s.err = cmp.Or(c.cause, s.err)
		return
	}
	b := d.buffer[MaxHeld : at+n]
	from, to, used, err := s.records.Open(b)
	if err == nil {
		s.keepPartial(d, b[used:])
	} else {
		s.err, s.partial = cmp.Or(c.cause, err), nil
		c.sendSealed(s.records.SealError(d.sealed[:0], err))
	}
	if from < to { // otherwise there was nothing for the handler: perhaps a session ticket
		c.deliver(d.buffer[from:], to-from)
	}
}

// Sizes in bytes of what is kept of a record that has not arrived whole.
const (
	shortPartial = 512     // what a connection keeps memory for
	longPartial  = 4 << 10 // from here on, memory is for the largest record, and is used again by others
	// sparePartials is how many such buffers a loop keeps for use.
	sparePartials = 8
)

// keepPartial keeps the beginning of a record until more arrives. Its memory grows with what has arrived of the record, not with the size
// that the record's header claims.
func (s *secured) keepPartial(d *driver, b []byte) {
	if cap(s.partial) > shortPartial && len(b) <= shortPartial {
		if cap(s.partial) >= tlsrecord.MaxRecord && len(d.partials) < sparePartials {
			d.partials = append(d.partials, s.partial)
		}
		s.partial = nil
	}
	if cap(s.partial) < len(b) && len(b) > longPartial {
		if last := len(d.partials) - 1; last >= 0 {
			s.partial, d.partials = d.partials[last], d.partials[:last]
		} else {
			s.partial = make([]byte, 0, tlsrecord.MaxRecord)
		}
	}
	s.partial = append(s.partial[:0], b...)
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
	if s.crypto != nil {
		c.writeByCrypto(b)
		return
	}
	c.sendSealed(s.records.Seal(c.on.driver.sealed[:0], b))
}

// sendSealed sends ciphertext, and keeps what the socket does not take. The driver uses its memory again.
func (c *Conn) sendSealed(b []byte) {
	if d := &c.on.driver; cap(b) > cap(d.sealed) && cap(b) <= 2*readSize {
		d.sealed = b
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
		if s.crypto != nil {
			_ = s.crypto.tls.CloseWrite()
			c.sendSealed(s.crypto.take())
			s.crypto.shut = true
		} else {
			c.sendSealed(s.records.SealClose(c.on.driver.sealed[:0]))
		}
		s.shut = true
	}
	return len(c.out) == 0
}
