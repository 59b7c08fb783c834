package secure

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/wsbouncer/wsbouncer/internal/wire/tlsrecord"
)

// keyLog is the key log of one connection ([tls.Config.KeyLogWriter]).
type keyLog struct{ line *Line }

// Write implements [io.Writer]: b is one line of the log.
func (k keyLog) Write(b []byte) (int, error) {
	k.line.mu.Lock()
	defer k.line.mu.Unlock()
	if f := k.line.follower; f != nil {
		f.learn(b)
	}
	// An io.Writer should not change b, but crypto/tls has made b for this call alone, and secrets should not stay in memory.
	clear(b)
	return len(b), nil
}

// follower keeps the record layer of a connection in step with crypto/tls. It is guarded by its Line's mu.
type follower struct {
	client bool // this end is the client
	// From the first records.
	clientRandom, serverRandom []byte // nil if they have not passed, or are not what they should be
	suite                      uint16
	// Secrets: of TLS 1.3, until the record layer is made of them, and of TLS 1.2.
	clientSecret, serverSecret       []byte
	clientHandshake, serverHandshake []byte
	master                           []byte

	records *tlsrecord.Conn // made once everything for it is known, in whichever order
	lost    bool            // not all records have passed as whole ones
}

// The labels of a key log whose secrets protect data
// (https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html, sections 2.1 and 2.2).
const (
	labelClient = "CLIENT_TRAFFIC_SECRET_0"
	labelServer = "SERVER_TRAFFIC_SECRET_0"
	labelMaster = "CLIENT_RANDOM"
	// These protect the handshake: with them, each of its records is accounted for.
	labelClientHandshake = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
	labelServerHandshake = "SERVER_HANDSHAKE_TRAFFIC_SECRET"
)

// learn takes a secret out of a line of the key log: a label, the client's random value and the secret, both in hexadecimal.
func (f *follower) learn(line []byte) {
	fields := bytes.Fields(line)
	if len(fields) != 3 {
		return
	}
	secret := make([]byte, hex.DecodedLen(len(fields[2])))
	if _, err := hex.Decode(secret, fields[2]); err != nil {
		return
	}
	switch string(fields[0]) {
	case labelClient:
		f.clientSecret = secret
	case labelServer:
		f.serverSecret = secret
	case labelClientHandshake:
		f.clientHandshake = secret
	case labelServerHandshake:
		f.serverHandshake = secret
	case labelMaster:
		f.master = secret
	default:
		clear(secret)
		return
	}
	f.begin()
}

// begin makes the record layer, once everything for it is known. If it cannot be made, crypto/tls keeps the connection.
func (f *follower) begin() {
	switch {
	case f.serverRandom == nil:
	case f.clientHandshake != nil && f.serverHandshake != nil:
		f.records, _ = tlsrecord.Follow13(f.suite, f.client, f.clientHandshake, f.serverHandshake)
		f.clientHandshake, f.serverHandshake, f.master = nil, nil, nil // the session that was offered was not resumed
	case f.master != nil && f.clientRandom != nil:
		f.records, _ = tlsrecord.Follow12(f.suite, f.client, f.master, f.clientRandom, f.serverRandom)
	}
	if f.records != nil && f.clientSecret != nil && f.serverSecret != nil {
		if f.records.SetSecrets(f.clientSecret, f.serverSecret) != nil {
			f.records = nil
		}
		f.clientSecret, f.serverSecret = nil, nil
	}
}

// pass notes a whole record, which it may change.
func (f *follower) pass(record []byte, arrived bool) {
	switch {
	case f.records != nil && arrived:
		f.records.FollowIn(record)
	case f.records != nil:
		f.records.FollowOut(record)
	case arrived != f.client && f.clientRandom == nil:
		f.clientRandom = randomOf(record, clientHello)
	case arrived == f.client && f.serverRandom == nil:
		f.readServerHello(record)
		f.begin()
	}
}

// The messages that begin a handshake (RFC 8446, section 4), each in its end's first record.
const (
	clientHello byte = 1
	serverHello byte = 2
)

// randomAt is where the random value of these messages begins: after the headers of the record and of the message, and the version
// (RFC 8446, section 4.1.2, and RFC 5246, section 7.4.1.2).
const randomAt = recordHeader + 4 + 2

// randomOf returns the random value of the message in a record; nil if it is another one.
func randomOf(record []byte, message byte) []byte {
	const handshake = 22
	if len(record) < randomAt+32 || record[0] != handshake || record[recordHeader] != message {
		return nil
	}
	return bytes.Clone(record[randomAt : randomAt+32])
}

// readServerHello takes the suite and the random value out of the server's first record (RFC 8446, section 4.1.3). A HelloRetryRequest names
// the suite, too, and the random value matters only with TLS 1.2, which does not have that.
func (f *follower) readServerHello(record []byte) {
	const session = randomAt + 32
	if len(record) <= session {
		return
	}
	suite := session + 1 + int(record[session])
	if len(record) < suite+2 {
		return
	}
	f.serverRandom = randomOf(record, serverHello)
	f.suite = binary.BigEndian.Uint16(record[suite:])
}
