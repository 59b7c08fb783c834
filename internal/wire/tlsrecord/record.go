package tlsrecord

import (
	"crypto/tls"
	"encoding/binary"
)

// Open opens the whole records at the beginning of b, in place. The data that they carry is b[from:to], and b[used:] is the beginning
// of the next record, which is to be presented again when more has arrived; it is shorter than [MaxRecord].
//
// An error says what has ended the peer's stream after that data: [io.EOF] after close_notify, an alert that the peer has sent, or what
// the peer did wrong, which the caller reports to it by [Conn.SealError]. Nothing may be opened after it.
func (c *Conn) Open(b []byte) (from, to, used int, err error) {
	for {
		rest := b[used:]
		if len(rest) < headerSize {
			return from, to, used, nil
		}
		size, err := c.size(rest)
		if err != nil || len(rest) < size {
			return from, to, used, err
		}
		start := used
		used += size
		kind, first, last, err := c.open(rest[:size])
		if err != nil {
			return from, to, used, err
		}
		if kind != dataRecord || first == last {
			if err := c.receive(kind, rest[first:last]); err != nil {
				return from, to, used, err
			}
			continue
		}
		if c.message.begun() { // a message may not be interrupted (RFC 8446, section 5.1)
			return from, to, used, localError{unexpectedMessage}
		}
		c.useless = 0
		if from == to {
			from, to = start+first, start+last
			continue
		}
		to += copy(b[to:], rest[first:last])
	}
}

// size returns the size of the record that begins with b, at least headerSize bytes.
func (c *Conn) size(b []byte) (int, error) {
	limit := maxSealed12
	if c.version == tls.VersionTLS13 {
		limit = maxSealed13
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	switch {
	case b[1] != 3 || b[2] != 3:
		return 0, localError{protocolVersion}
	case c.version == tls.VersionTLS13 && b[0] != dataRecord || b[0] <= changeCipherSpec || b[0] > dataRecord:
		return 0, localError{unexpectedMessage}
	case n > limit:
		return 0, localError{recordOverflow}
	}
	return headerSize + n, nil
}

// open opens one record in place. Its content is record[from:to].
func (c *Conn) open(record []byte) (kind byte, from, to int, err error) {
	h := &c.in
	kind, from = record[0], headerSize
	extra := record[:headerSize]
	h.setNonce()
	if h.explicit {
		if len(record) < headerSize+8 {
			return 0, 0, 0, localError{badRecordMAC}
		}
		from += copy(h.nonce[4:], record[headerSize:headerSize+8])
	}
	if len(record) < from+tagSize {
		return 0, 0, 0, localError{badRecordMAC}
	}
	if c.version != tls.VersionTLS13 {
		h.setExtra(kind, len(record)-from-tagSize)
		extra = h.extra[:]
	}
	content, failed := h.aead.Open(record[from:from], h.nonce[:], record[from:], extra)
	if failed != nil {
		return 0, 0, 0, localError{badRecordMAC}
	}
	h.seq++
	if c.version == tls.VersionTLS13 { // the type follows the content, and padding follows the type (RFC 8446, section 5.4)
		if len(content) > maxContent+1 {
			return 0, 0, 0, localError{recordOverflow}
		}
		last := len(content) - 1
		for last >= 0 && content[last] == 0 {
			last--
		}
		if last < 0 {
			return 0, 0, 0, localError{unexpectedMessage}
		}
		kind, content = content[last], content[:last]
	}
	if len(content) > maxContent {
		return 0, 0, 0, localError{recordOverflow}
	}
	return kind, from, from + len(content), nil
}

// receive handles the content of a record that carries no data.
func (c *Conn) receive(kind byte, content []byte) error {
	if c.useless++; c.useless > maxUseless {
		return localError{unexpectedMessage}
	}
	if kind != handshakeRecord && c.message.begun() {
		return localError{unexpectedMessage}
	}
	switch kind {
	case dataRecord: // it is empty
		return nil
	case alertRecord:
		return c.receiveAlert(content)
	case handshakeRecord:
		return c.receiveHandshake(content)
	}
	return localError{unexpectedMessage}
}

// Seal appends to dst the records that carry b as data, and before them new keys if the peer has asked for them or enough records
// were sealed with the old ones. It does not allocate if dst has room for MaxRecord-maxContent bytes more than b for each 16 KiB.
func (c *Conn) Seal(dst, b []byte) []byte {
	for len(b) > 0 {
		if c.owed || c.out.seq >= maxRecords && c.version == tls.VersionTLS13 {
			dst = c.sealKeyUpdate(dst)
		}
		n := min(len(b), maxContent)
		dst = c.seal(dst, dataRecord, b[:n])
		b = b[n:]
	}
	return dst
}

// sealKeyUpdate appends the message that new keys follow in this direction, and switches to them (RFC 8446, section 4.6.3).
func (c *Conn) sealKeyUpdate(dst []byte) []byte {
	c.owed = false
	dst = c.seal(dst, handshakeRecord, []byte{keyUpdate, 0, 0, 1, updateNotRequested})
	c.updateKeys(&c.out)
	return dst
}

// seal appends one record.
func (c *Conn) seal(dst []byte, kind byte, content []byte) []byte {
	h := &c.out
	h.setNonce()
	start := len(dst) + headerSize
	if c.version == tls.VersionTLS13 {
		n := len(content) + 1 + tagSize
		dst = append(dst, dataRecord, 3, 3, byte(n>>8), byte(n))
		dst = append(dst, content...)
		dst = append(dst, kind)
		dst = h.aead.Seal(dst[:start], h.nonce[:], dst[start:], dst[start-headerSize:start])
	} else {
		n := len(content) + tagSize
		if h.explicit {
			n += 8
		}
		dst = append(dst, kind, 3, 3, byte(n>>8), byte(n))
		if h.explicit {
			dst = binary.BigEndian.AppendUint64(dst, h.seq)
		}
		h.setExtra(kind, len(content))
		dst = h.aead.Seal(dst, h.nonce[:], content, h.extra[:])
	}
	h.seq++
	return dst
}
