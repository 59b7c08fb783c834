package secure

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/wsbouncer/wsbouncer/internal/tlsrecord"
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
	client  bool // this end is the client
	hello   bool // the server's first record has passed
	suite   uint16
	random  []byte // the server's random value, from the ServerHello, as the suite is
	secrets secrets
	records *tlsrecord.Conn // made once the ServerHello and the secrets are known, in whichever order
}

// secrets are what the key log has told, until the record layer is made of it.
type secrets struct {
	client, server       []byte // of TLS 1.3
	master, clientRandom []byte // of TLS 1.2
}

// The labels of a key log whose secrets protect data
// (https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-05.html, sections 2.1 and 2.2).
const (
	labelClient = "CLIENT_TRAFFIC_SECRET_0"
	labelServer = "SERVER_TRAFFIC_SECRET_0"
	labelMaster = "CLIENT_RANDOM"
)

// learn takes a secret out of a line of the key log: a label, the client's random value and the secret, both in hexadecimal.
func (f *follower) learn(line []byte) {
	fields := bytes.Fields(line)
	if len(fields) != 3 || f.records != nil {
		return
	}
	random, secret := make([]byte, hex.DecodedLen(len(fields[1]))), make([]byte, hex.DecodedLen(len(fields[2])))
	_, randomErr := hex.Decode(random, fields[1])
	_, secretErr := hex.Decode(secret, fields[2])
	if randomErr != nil || secretErr != nil {
		return
	}
	switch string(fields[0]) {
	case labelClient:
		f.secrets.client = secret
	case labelServer:
		f.secrets.server = secret
	case labelMaster:
		f.secrets.master, f.secrets.clientRandom = secret, random
	default:
		clear(secret)
	}
	f.begin()
}

// begin makes the record layer, once everything for it is known. If it cannot be made, crypto/tls goes on with the connection.
func (f *follower) begin() {
	switch s := &f.secrets; {
	case !f.hello:
		return
	case s.client != nil && s.server != nil:
		f.records, _ = tlsrecord.New13(f.suite, f.client, s.client, s.server)
	case s.master != nil:
		f.records, _ = tlsrecord.New12(f.suite, f.client, s.master, s.clientRandom, f.random)
		clear(s.master)
	default:
		return
	}
	f.secrets = secrets{}
}

// pass notes a whole record, which it may change.
func (f *follower) pass(record []byte, arrived bool) {
	switch {
	case f.records != nil && arrived:
		f.records.FollowIn(record)
	case f.records != nil:
		f.records.FollowOut(record)
	case arrived == f.client && !f.hello:
		f.hello = true
		f.readServerHello(record)
		f.begin()
	}
}

// readServerHello takes the suite and the random value out of the server's first record (RFC 8446, section 4.1.3, and RFC 5246, section
// 7.4.1.3). A HelloRetryRequest names the suite, too, and the random value matters only with TLS 1.2, which does not have that.
func (f *follower) readServerHello(record []byte) {
	const random = recordHeader + 4 + 2 // after the headers of the record and of the message, and the version
	const session = random + 32
	if len(record) <= session || record[0] != 22 || record[recordHeader] != 2 {
		return
	}
	suite := session + 1 + int(record[session])
	if len(record) < suite+2 {
		return
	}
	f.random = bytes.Clone(record[random:session])
	f.suite = binary.BigEndian.Uint16(record[suite:])
}
