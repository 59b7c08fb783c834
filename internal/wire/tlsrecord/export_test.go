package tlsrecord

import "bytes"

// SealAs appends a record with any content.
func (c *Conn) SealAs(dst []byte, kind byte, content []byte) []byte {
	return c.seal(dst, kind, content)
}

// UpdateOut switches to the next keys without telling the peer.
func (c *Conn) UpdateOut() { c.updateKeys(&c.out) }

// Mirror returns the other end, in the state in which it must be now.
func (c *Conn) Mirror() *Conn {
	m := &Conn{in: c.out, out: c.in, suite: c.suite, version: c.version, client: !c.client}
	m.in.secret, m.out.secret = bytes.Clone(m.in.secret), bytes.Clone(m.out.secret)
	return m
}

// Sealed says how many records were sealed with the current keys, and SetSealed changes it, to reach limits.
func (c *Conn) Sealed() uint64     { return c.out.seq }
func (c *Conn) SetSealed(n uint64) { c.out.seq = n }

// SetOpened is SetSealed for what arrives.
func (c *Conn) SetOpened(n uint64) { c.in.seq = n }

const MaxRecords, MaxUseless = maxRecords, maxUseless
