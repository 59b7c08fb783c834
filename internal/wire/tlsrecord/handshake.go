package tlsrecord

import "crypto/tls"

// The handshake messages that may arrive after the handshake (RFC 8446, section 4, and RFC 5246, section 7.4).
const (
	helloRequest     byte = 0
	clientHello      byte = 1
	newSessionTicket byte = 4
	keyUpdate        byte = 24
)

// finished is the type of the message that ends each end's part of the handshake.
const finished byte = 20

// What a KeyUpdate says (RFC 8446, section 4.6.3).
const (
	updateNotRequested byte = 0
	updateRequested    byte = 1
)

// maxTicket is the size in bytes of the largest session ticket message that is skipped: that of crypto/tls.
const maxTicket = 64 << 10

// message is a handshake message that is arriving, in one or more records. Nothing of it is kept but its header.
type message struct {
	header [4]byte // its type and length
	have   uint8   // how many bytes of the header have arrived
	left   uint32  // how many bytes are missing after the header
}

// begun reports whether a part of a message has arrived.
func (m *message) begun() bool { return m.have > 0 }

// pass notes the content of a record with handshake messages. It calls admit, unless that is nil, when the header of a message has arrived, and
// ended when all of it has: with its type, the end of its body, and whether it is the last of the record. It returns the first error of these.
func (m *message) pass(content []byte, admit func(*message) error, ended func(message byte, body []byte, last bool) error) error {
	if len(content) == 0 {
		return localError{unexpectedMessage}
	}
	for len(content) > 0 {
		if int(m.have) < len(m.header) {
			n := copy(m.header[m.have:], content)
			m.have += uint8(n)
			content = content[n:]
			if int(m.have) < len(m.header) {
				return nil
			}
			m.left = uint32(m.header[1])<<16 | uint32(m.header[2])<<8 | uint32(m.header[3])
			if admit != nil {
				if err := admit(m); err != nil {
					return err
				}
			}
		}
		n := min(int(m.left), len(content))
		body := content[:n]
		content = content[n:]
		if m.left -= uint32(n); m.left > 0 {
			return nil
		}
		m.have = 0
		if err := ended(m.header[0], body, len(content) == 0); err != nil {
			return err
		}
	}
	return nil
}

// receiveHandshake handles the content of a record with handshake messages.
func (c *Conn) receiveHandshake(content []byte) error {
	if len(content) == 0 {
		return localError{unexpectedMessage}
	}
	if c.version != tls.VersionTLS13 {
		if content[0] == helloRequest && c.client || content[0] == clientHello && !c.client {
			return localError{noRenegotiation}
		}
		return localError{unexpectedMessage}
	}
	return c.message.pass(content, c.admit, func(message byte, body []byte, last bool) error {
		switch {
		case message != keyUpdate:
			return nil
		case !last: // messages may not span a change of keys (RFC 8446, section 5.1)
			return localError{unexpectedMessage}
		}
		return c.receiveKeyUpdate(body[0])
	})
}

// admit decides from its header whether a message may arrive.
func (c *Conn) admit(m *message) error {
	switch {
	case m.header[0] == keyUpdate && m.left != 1:
		return localError{decodeError}
	case m.header[0] == keyUpdate:
	case m.header[0] != newSessionTicket || !c.client:
		return localError{unexpectedMessage}
	case m.left == 0 || m.left > maxTicket:
		return localError{decodeError}
	}
	return nil
}

// receiveKeyUpdate switches to the peer's next keys. Those of this end follow, if asked for, with the next data: so a peer that asks
// again and again, and reads nothing, makes no work and takes no memory.
func (c *Conn) receiveKeyUpdate(request byte) error {
	switch request {
	case updateRequested:
		c.owed = true
	case updateNotRequested:
	default:
		return localError{illegalParameter}
	}
	c.updateKeys(&c.in)
	return nil
}
