// Package tlsrecord is the record layer of TLS 1.3 (RFC 8446, section 5) and 1.2 (RFC 5246, section 6) after the handshake: it
// seals what is sent and opens what arrives, in the caller's memory, without allocating. It does no I/O.
//
// crypto/tls carries out the handshake, and keeps what it needed for that, and a buffer as large as the largest record that has
// arrived, for the life of the connection. It also allocates with each read. So an event loop continues its connections with this
// package, as other programs continue theirs in the kernel (kTLS): package secure follows the records of a [tls.Conn], and hands a
// [Conn] over that is in the same state. What this package does not know, it leaves to crypto/tls: cipher suites without an AEAD,
// and renegotiation.
//
// After the handshake, TLS has alerts, and TLS 1.3 has new keys and session tickets. Package tlsrecord answers new keys, skips
// tickets, and fails for everything else, with the alert that the RFC names.
package tlsrecord

import (
	"crypto/fips140"
	"crypto/tls"
	"errors"
)

// Sizes in bytes.
const (
	headerSize = 5
	// maxContent is the largest content of a record (RFC 8446, section 5.1).
	maxContent = 16 << 10
	// maxSealed12 and maxSealed13 are the largest sizes of what follows a record's header (RFC 5246, section 6.2.3, and
	// RFC 8446, section 5.2).
	maxSealed12 = maxContent + 2<<10
	maxSealed13 = maxContent + 256
	tagSize     = 16
	// MaxRecord is the size of the largest record.
	MaxRecord = headerSize + maxSealed12
)

// The types of what records hold (RFC 8446, section 5.1).
const (
	changeCipherSpec byte = 20
	alertRecord      byte = 21
	handshakeRecord  byte = 22
	dataRecord       byte = 23
)

// maxRecords is how many records are sealed with one key of TLS 1.3, before this end updates it. AES-GCM allows 2^24.5 of them
// (RFC 8446, section 5.5).
const maxRecords = 1 << 24

// maxUseless is how many records without data may follow each other, such as empty ones and new keys. It is the limit of crypto/tls.
const maxUseless = 16

// Conn is the record layer of one end of a connection. One goroutine at a time may use it.
type Conn struct {
	in, out half
	suite   uint16
	version uint16
	client  bool // this end is the client
	useless uint8
	owed    bool    // the peer has asked for new keys of this end, which the next data follows (RFC 8446, section 4.6.3)
	message message // the handshake message that is arriving

	following *following // nil unless a connection is followed
}

// New13 returns one end of a connection with TLS 1.3 after the handshake. The secrets are the first application traffic secrets (RFC
// 8446, section 7.1); the Conn owns them from now on. New13 fails if the suite is not one of TLS 1.3 that package tlsrecord knows.
func New13(suite uint16, client bool, clientSecret, serverSecret []byte) (*Conn, error) {
	s, err := suiteOf(suite)
	if err != nil {
		return nil, err
	}
	if size := s.hash().Size(); fips140.Enabled() || suite>>8 != 0x13 || len(clientSecret) != size || len(serverSecret) != size {
		return nil, errUnsupported
	}
	c := &Conn{suite: suite, version: tls.VersionTLS13, client: client}
	ours, theirs := serverSecret, clientSecret
	if client {
		ours, theirs = clientSecret, serverSecret
	}
	return c, errors.Join(c.in.setSecret(s, theirs), c.out.setSecret(s, ours))
}

// errUnsupported says that the values do not fit together, or that the program may only use approved cryptography (FIPS 140), which
// for TLS means crypto/tls.
var errUnsupported = errors.New("left to crypto/tls")

// New12 returns one end of a connection with TLS 1.2 from its first protected record on, which holds the handshake's Finished. The
// keys are made of the master secret and both sides' random values (RFC 5246, section 6.3). New12 fails if the suite is not one of TLS
// 1.2 that package tlsrecord knows.
func New12(suite uint16, client bool, master, clientRandom, serverRandom []byte) (*Conn, error) {
	s, err := suiteOf(suite)
	if err != nil {
		return nil, err
	}
	if fips140.Enabled() || suite>>8 == 0x13 || len(master) != 48 || len(clientRandom) != 32 || len(serverRandom) != 32 {
		return nil, errUnsupported
	}
	c := &Conn{suite: suite, version: tls.VersionTLS12, client: client}
	c.in.explicit = suite != tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 && suite != tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
	c.out.explicit = c.in.explicit
	ivSize := len(c.in.nonce)
	if c.in.explicit {
		ivSize = 4
	}
	seed := append(append(make([]byte, 0, 64), serverRandom...), clientRandom...)
	block := expand12(s.hash, master, "key expansion", seed, 2*(s.keySize+ivSize))
	defer clear(block)
	take := func(n int) []byte {
		part := block[:n:n]
		block = block[n:]
		return part
	}
	client12, server12 := &c.in, &c.out
	if client {
		client12, server12 = &c.out, &c.in
	}
	for _, h := range []*half{client12, server12} {
		if h.aead, err = s.aead(take(s.keySize)); err != nil {
			return nil, err
		}
	}
	client12.setIV(take(ivSize))
	server12.setIV(take(ivSize))
	return c, nil
}

// Version returns the version of TLS, and Suite the cipher suite, as package tls numbers them.
func (c *Conn) Version() uint16 { return c.version }

// Suite returns the cipher suite, as package tls numbers them.
func (c *Conn) Suite() uint16 { return c.suite }

// updateKeys switches to the next keys in one direction.
func (c *Conn) updateKeys(h *half) {
	s, err := suiteOf(c.suite)
	if err != nil {
		panic("tlsrecord: " + err.Error()) // New13 has checked it
	}
	h.update(s)
}
