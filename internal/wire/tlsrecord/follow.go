package tlsrecord

import (
	"crypto/tls"
	"encoding/binary"
)

// While crypto/tls still has the connection, a Conn can follow it: it is shown each record that crypto/tls has read or written since the keys
// are known, and accounts for each. Up to Finished, records belong to the handshake: with TLS 1.3 they open with the handshake's keys, with
// TLS 1.2 they are not protected. After Finished, each record must open with the Conn's keys and its count. A record that does neither means
// that this end would count otherwise than crypto/tls, and use a nonce twice, which gives AES-GCM's key away (RFC 8446, section 5.3): then the
// connection is lost to the Conn, in both directions and permanently, and crypto/tls carries on.

// following is what a Conn needs to follow a connection.
type following struct {
	in, out followed
	lost    bool // a record could not be accounted for
}

// followed is one direction of a connection that is followed.
type followed struct {
	begun     bool    // Finished has passed, so that the Conn's keys count
	handshake half    // of TLS 1.3: the handshake's keys; without an AEAD they are not known
	message   message // of TLS 1.3: the handshake message that is passing
	cipher    bool    // of TLS 1.2: ChangeCipherSpec has passed
}

// Follow13 returns one end of a connection with TLS 1.3 that crypto/tls still has, of which no protected record has passed. The secrets are the
// handshake traffic secrets (RFC 8446, section 7.1); the Conn owns them from now on. [Conn.SetSecrets] follows before Finished has passed in
// either direction. It fails if the suite is not one of TLS 1.3 that package tlsrecord knows.
func Follow13(suite uint16, client bool, clientSecret, serverSecret []byte) (*Conn, error) {
	c, err := New13(suite, client, clientSecret, serverSecret)
	if err != nil {
		return nil, err
	}
	c.following = new(following)
	c.following.in.handshake, c.following.out.handshake = c.in, c.out
	c.in, c.out = half{}, half{}
	return c, nil
}

// SetSecrets sets the first application traffic secrets of a Conn of [Follow13], which owns them from now on.
func (c *Conn) SetSecrets(clientSecret, serverSecret []byte) error {
	keys, err := New13(c.suite, c.client, clientSecret, serverSecret)
	if err == nil {
		c.in, c.out = keys.in, keys.out
	}
	return err
}

// Follow12 is [New12] for a connection that crypto/tls still has, whose ChangeCipherSpec has not passed in either direction.
func Follow12(suite uint16, client bool, master, clientRandom, serverRandom []byte) (*Conn, error) {
	c, err := New12(suite, client, master, clientRandom, serverRandom)
	if err == nil {
		c.following = new(following)
	}
	return c, err
}

// FollowIn notes a record that crypto/tls has read. It changes record, which must be a copy.
func (c *Conn) FollowIn(record []byte) {
	if f := c.following; f != nil && !f.lost && !c.followIn(&f.in, record) {
		f.lost = true
	}
}

// FollowOut notes a record that crypto/tls has written. It changes record, which must be a copy.
func (c *Conn) FollowOut(record []byte) {
	if f := c.following; f != nil && !f.lost && !c.followOut(&f.out, record) {
		f.lost = true
	}
}

// isWhole reports whether b is a whole record.
func isWhole(b []byte) bool {
	return len(b) >= headerSize && len(b) == headerSize+int(binary.BigEndian.Uint16(b[3:]))
}

// followIn and followOut return false for a record that they cannot account for.
func (c *Conn) followIn(f *followed, record []byte) bool {
	if !isWhole(record) {
		return false
	}
	if !f.begun {
		return c.followHandshake(f, &c.in, record)
	}
	if _, err := c.size(record); err != nil {
		return false
	}
	kind, content, err := c.openWith(&c.in, record)
	switch {
	case err != nil:
		return false
	case kind == dataRecord && len(content) > 0:
		c.useless = 0
		return !c.message.begun()
	}
	return c.receive(kind, content) == nil
}

func (c *Conn) followOut(f *followed, record []byte) bool {
	if !isWhole(record) {
		return false
	}
	if !f.begun {
		return c.followHandshake(f, &c.out, record)
	}
	kind, content, err := c.openWith(&c.out, record) // the same keys open what they have sealed
	switch {
	case err != nil:
		return false
	case kind == dataRecord:
		return !f.message.begun()
	case kind != handshakeRecord || c.version != tls.VersionTLS13: // with an alert, crypto/tls has ended the stream, and says so itself
		return false
	}
	return nil == f.message.pass(content, nil, func(message byte, _ []byte, last bool) error {
		switch {
		case message == newSessionTicket:
			return nil
		case message != keyUpdate || !last:
			return errUnsupported
		}
		c.owed = false
		c.updateKeys(&c.out)
		return nil
	})
}

// followHandshake accounts for a record up to Finished, in one direction.
func (c *Conn) followHandshake(f *followed, h *half, record []byte) bool {
	if c.version == tls.VersionTLS12 {
		if !f.cipher {
			f.cipher = record[0] == changeCipherSpec
			return record[0] == changeCipherSpec || record[0] == handshakeRecord
		}
		kind, _, err := c.openWith(h, record)
		f.begun = err == nil && kind == handshakeRecord
		return f.begun
	}
	if record[0] != dataRecord { // a Hello, or the ChangeCipherSpec that means nothing (RFC 8446, appendix D.4)
		return record[0] == handshakeRecord || record[0] == changeCipherSpec
	}
	kind, content, err := c.openWith(&f.handshake, record)
	if err != nil || kind != handshakeRecord {
		return false
	}
	return nil == f.message.pass(content, nil, func(message byte, _ []byte, last bool) error {
		if message != finished {
			return nil
		}
		clear(f.handshake.secret)
		f.handshake = half{}
		if f.begun = last; !last {
			return errUnsupported
		}
		return nil
	})
}

// openWith opens a record in place with the keys of one direction, whichever that is.
func (c *Conn) openWith(h *half, record []byte) (kind byte, content []byte, err error) {
	if h.aead == nil { // the keys are not known yet
		return 0, nil, errUnsupported
	}
	reader := Conn{in: *h, version: c.version}
	kind, from, to, err := reader.open(record)
	h.seq = reader.in.seq
	return kind, record[from:to], err
}

// Followed reports whether the Conn is in the state of the connection that it has followed, whose handshake is complete. It ends the following.
func (c *Conn) Followed() bool {
	f := c.following
	c.following = nil
	return f != nil && !f.lost && f.in.begun && f.out.begun
}
