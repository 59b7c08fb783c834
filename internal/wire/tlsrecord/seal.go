package tlsrecord

import (
	"crypto/tls"
	"encoding/binary"
)

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
