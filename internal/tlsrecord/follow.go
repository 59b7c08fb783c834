package tlsrecord

import "crypto/tls"

// While crypto/tls still has the connection, a Conn can follow it: it is shown each record that crypto/tls has read or written since
// the keys are known. A direction's first records may belong to the handshake and be sealed with other keys: they do not open. From the
// first record that does, which no other key can seal, both ends count alike.

// FollowIn notes a record that crypto/tls has read. It changes record, which must be a copy.
func (c *Conn) FollowIn(record []byte) {
	if c.lost || !c.begunIn && !c.mayOpen(record) {
		return
	}
	if _, err := c.size(record); err != nil {
		c.lost = true
		return
	}
	kind, from, to, err := c.open(record)
	switch {
	case err != nil && !c.begunIn && err == error(localError{badRecordMAC}):
		return
	case err != nil:
		c.lost = true
		return
	}
	first := !c.begunIn
	c.begunIn = true
	if kind == handshakeRecord && first && c.version == tls.VersionTLS12 { // Finished
		return
	}
	if kind == dataRecord && from < to {
		c.useless = 0
		c.lost = c.message.begun()
		return
	}
	c.lost = c.receive(kind, record[from:to]) != nil
}

// FollowOut notes a record that crypto/tls has written. It changes record, which must be a copy.
func (c *Conn) FollowOut(record []byte) {
	if c.lost || !c.begunOut && !c.mayOpen(record) {
		return
	}
	// The same keys open what they have sealed.
	ours := Conn{in: c.out, version: c.version}
	kind, from, to, err := ours.open(record)
	if err != nil {
		c.lost = c.begunOut
		return
	}
	c.begunOut = true
	c.out.seq++
	switch content := record[from:to]; {
	case kind == alertRecord:
		c.lost = true // crypto/tls has ended the stream, and says so itself
	case kind == handshakeRecord && c.version == tls.VersionTLS13 && len(content) > 0 && content[0] == keyUpdate && len(content) == 5:
		c.owed = false
		c.updateKeys(&c.out)
	}
}

// mayOpen reports whether a record may be the first one of a direction.
func (c *Conn) mayOpen(record []byte) bool {
	kind := dataRecord
	if c.version == tls.VersionTLS12 {
		kind = handshakeRecord // Finished
	}
	return len(record) > headerSize && record[0] == kind
}

// Followed reports whether the Conn is in the state of the connection that it has followed, whose handshake is complete.
func (c *Conn) Followed() bool {
	if c.version == tls.VersionTLS12 && !(c.begunIn && c.begunOut) { // Finished has passed in both directions
		return false
	}
	return !c.lost
}
