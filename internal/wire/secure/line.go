package secure

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// Line is the transport of a [tls.Conn] of this package: tls.Conn.NetConn returns it. Its connection may be replaced while the
// tls.Conn is not in use.
//
// A Line gives its tls.Conn one record at a time, so that this has nothing of what follows when it has read what it wanted. And a Line
// follows the records that pass, if the connection's configuration is one of [Client] or [ForServer]: it gets the secrets that the
// handshake has agreed on as a writer of the key log ([tls.Config.KeyLogWriter]), keeps a [tlsrecord.Conn] in step, and [Line.Release]
// hands that over.
//
// As with a tls.Conn, one goroutine may read while another one writes.
type Line struct {
	net.Conn

	released bool // static while the tls.Conn is in use

	// Owned by who reads.
	early  []byte             // what was received and not read yet
	buffer []byte             // memory for early
	header [recordHeader]byte // the header of the record that is being read
	have   int                // how many bytes of the header have been read
	left   int                // how many bytes of the record are missing after its header
	record []byte             // a copy of the record that is being read, if it is followed
	first  []byte             // the beginning of the first record that was read, up to the random value of a ClientHello

	mu       sync.Mutex
	follower *follower // guarded by mu; nil if records are not followed
}

// recordHeader is the size of a record's header in bytes (RFC 8446, section 5.1).
const recordHeader = 5

// Read implements [net.Conn]. Before Release, it returns at most the rest of the current record.
func (l *Line) Read(b []byte) (int, error) {
	if l.released && len(l.early) == 0 {
		return l.Conn.Read(b)
	}
	if len(l.early) == 0 { // as much as there is, because each read may have to wait its turn
		if l.buffer == nil {
			l.buffer = make([]byte, 4<<10)
		}
		n, err := l.Conn.Read(l.buffer)
		if n == 0 {
			return 0, err
		}
		l.early = l.buffer[:n]
	}
	want := l.left
	if l.have < recordHeader {
		want = recordHeader - l.have
	}
	if l.released {
		want = len(b)
	}
	n := copy(b[:min(len(b), want)], l.early)
	if l.early = l.early[n:]; len(l.early) == 0 {
		l.early = nil
	}
	if !l.released {
		l.readOn(b[:n])
	}
	return n, nil
}

// readOn notes what was read of the current record.
func (l *Line) readOn(b []byte) {
	if len(b) == 0 {
		return
	}
	if l.have == 0 {
		l.record = l.record[:0]
	}
	if l.follows() {
		l.record = append(l.record, b...)
	}
	if missing := randomAt + 32 - len(l.first); missing > 0 {
		l.first = append(l.first, b[:min(missing, len(b))]...)
	}
	if l.have < recordHeader {
		l.have += copy(l.header[l.have:], b)
		if l.have < recordHeader {
			return
		}
		l.left = int(binary.BigEndian.Uint16(l.header[3:]))
	} else {
		l.left -= len(b)
	}
	if l.left == 0 {
		l.have = 0
		l.pass(l.record, true)
		l.record = l.record[:0]
	}
}

// Write implements [net.Conn]. A tls.Conn writes whole records.
func (l *Line) Write(b []byte) (int, error) {
	if !l.released && l.follows() {
		records := bytes.Clone(b)
		for len(records) > 0 {
			size := recordHeader
			if len(records) >= recordHeader {
				size += int(binary.BigEndian.Uint16(records[3:]))
			}
			if size > len(records) { // today's crypto/tls writes whole records; one that does not cannot be followed
				l.lose()
				break
			}
			l.pass(records[:size:size], false)
			records = records[size:]
		}
	}
	return l.Conn.Write(b)
}

func (l *Line) follows() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.follower != nil
}

// lose ends the following of records, since one has not passed as a whole.
func (l *Line) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follower != nil {
		l.follower.lost = true
	}
}

// pass shows the follower a whole record.
func (l *Line) pass(record []byte, arrived bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follower != nil && len(record) > 0 {
		l.follower.pass(record, arrived)
	}
}

// follow begins to follow the records. A client calls it at first, a server once it has read the ClientHello.
func (l *Line) follow(client bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follower = &follower{client: client}
	if !client {
		l.follower.clientRandom = randomOf(l.first, clientHello)
	}
}

// Release ends the following of records, and returns the record layer in the state of conn, whose transport the Line is, with what was
// read of an incomplete record. It returns nil if records were not followed, or if it cannot be sure: then nothing but conn can continue
// with the connection. No other goroutine may use conn meanwhile, and its handshake must be complete.
//
// Before that, the caller takes out what conn has decrypted but not delivered.
func (l *Line) Release(conn *tls.Conn) (records *tlsrecord.Conn, partial []byte) {
	l.mu.Lock()
	f := l.follower
	l.follower = nil
	l.mu.Unlock()
	partial = l.record
	l.record, l.released = nil, true
	if f == nil {
		return nil, nil
	}
	clear(f.master)
	if f.records == nil || !f.records.Followed() || f.lost {
		return nil, nil
	}
	state := conn.ConnectionState()
	if !state.HandshakeComplete || state.Version != f.records.Version() || state.CipherSuite != f.records.Suite() {
		return nil, nil
	}
	return f.records, bytes.Clone(partial)
}

// Unfollow ends the following of the records of a TLS connection of this package that stays with package tls. It does nothing with others.
func Unfollow(nc net.Conn) {
	if tc, ok := nc.(*tls.Conn); ok {
		if line, ok := tc.NetConn().(*Line); ok {
			line.Release(tc)
		}
	}
}

// NetConn returns the line's connection, as that of [tls.Conn] does.
func (l *Line) NetConn() net.Conn { return l.Conn }

// Under returns the connection below all that wrap it and say so by NetConn, TLS among them.
func Under(nc net.Conn) net.Conn {
	for {
		outer, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = outer.NetConn()
	}
}
