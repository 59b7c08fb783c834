package loop

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// keys protect one direction of a TLS 1.3 connection (RFC 8446, section 7.3) with AES-128-GCM. Package crypto/tls never
// updates keys by itself, so the test does it.
type keys struct {
	t        *testing.T
	secret   []byte
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
}

func newKeys(t *testing.T, secret []byte) *keys {
	t.Helper()
	k := &keys{t: t, secret: secret}
	block, err := aes.NewCipher(k.expand("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	k.iv = k.expand("iv", 12)
	return k
}

// expand is HKDF-Expand-Label without a context (RFC 8446, section 7.1).
func (k *keys) expand(label string, length int) []byte {
	k.t.Helper()
	info := append([]byte{0, byte(length), byte(len("tls13 " + label))}, "tls13 "+label+"\x00"...)
	out, err := hkdf.Expand(sha256.New, k.secret, string(info), length)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// updated returns the keys that follow (RFC 8446, section 7.2).
func (k *keys) updated() *keys { return newKeys(k.t, k.expand("traffic upd", 32)) }

func (k *keys) nonce() []byte {
	nonce := bytes.Clone(k.iv)
	last := nonce[4:]
	binary.BigEndian.PutUint64(last, binary.BigEndian.Uint64(last)^k.sequence)
	k.sequence++
	return nonce
}

// The types of what records hold.
const (
	handshakeRecord = 22
	dataRecord      = 23
)

// record returns a record.
func (k *keys) record(kind byte, content string) []byte {
	inner := append([]byte(content), kind)
	header := []byte{23, 3, 3, 0, byte(len(inner) + 16)}
	return k.aead.Seal(header, k.nonce(), inner, header)
}

// expect reads a record, whose type and content must be these.
func (k *keys) expect(from io.Reader, kind byte, content string) {
	k.t.Helper()
	header := make([]byte, 5)
	if _, err := io.ReadFull(from, header); err != nil {
		k.t.Fatal(err)
	}
	sealed := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(from, sealed); err != nil {
		k.t.Fatal(err)
	}
	inner, err := k.aead.Open(nil, k.nonce(), sealed, header)
	if want := content + string(kind); err != nil || string(inner) != want {
		k.t.Fatalf("got %q, %v; want %q", inner, err, want)
	}
}

// KeyUpdate messages: one that wants no answer, and one that does (RFC 8446, section 4.6.3).
const update, updateAndAnswer = "\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01"

// secretsOf reads a secret from what a KeyLogWriter was given.
func secretsOf(t *testing.T, log, label string) []byte {
	t.Helper()
	for line := range strings.Lines(log) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == label {
			secret, err := hex.DecodeString(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
	}
	t.Fatalf("no %s", label)
	return nil
}

// rawFarEnd returns a connection whose far end speaks records itself after the handshake, without crypto/tls. With byCrypto, the near end
// goes on with crypto/tls.
func rawFarEnd(t *testing.T, byCrypto bool) (near net.Conn, far net.Conn, ours, theirs *keys) {
	t.Helper()
	var log bytes.Buffer
	server, client := configs(t, tls.VersionTLS13)
	if byCrypto {
		client.KeyLogWriter = io.Discard
	}
	server.SessionTicketsDisabled, server.KeyLogWriter = true, &log // without tickets, the first record is ours
	nearTCP, farTCP := wstest.Pair(t)
	nearTLS, farTLS := shake(t, nearTCP, farTCP, server, client)
	if suite := farTLS.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("without AES in hardware, %s is used", tls.CipherSuiteName(suite))
	}
	return nearTLS, farTCP, newKeys(t, secretsOf(t, log.String(), "SERVER_TRAFFIC_SECRET_0")),
		newKeys(t, secretsOf(t, log.String(), "CLIENT_TRAFFIC_SECRET_0"))
}

// The peer updates its keys and asks for the same. The answer is sent at once or before the next data, the handler receives nothing,
// and both directions go on with the new keys. This also works when the message arrives in pieces, and when others follow at once.
func TestKeyUpdate(t *testing.T) {
	near, far, ours, theirs := rawFarEnd(t, false)
	arrived, ended := make(chan string, 10), make(chan error, 1)
	c := add(t, group(t, 1).Pick(), near, &script{
		received: func(c *Conn, b []byte) int {
			arrived <- string(b)
			if !c.halfClose {
				c.Write(b)
			}
			return len(b)
		},
		ended: func(_ *Conn, err error) { ended <- err },
	}, nil)
	send := func(b []byte) {
		t.Helper()
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send(ours.record(handshakeRecord, updateAndAnswer))
	ours = ours.updated()
	send(ours.record(dataRecord, "with new keys"))
	theirs.expect(far, handshakeRecord, update)
	theirs = theirs.updated()
	theirs.expect(far, dataRecord, "with new keys")
	message := ours.record(handshakeRecord, updateAndAnswer[:2]) // a message in two records, the second one in two pieces
	rest := ours.record(handshakeRecord, updateAndAnswer[2:])
	send(append(message, rest[:7]...))
	settle(t, c.Loop())
	ours = ours.updated()
	send(append(rest[7:], ours.record(dataRecord, "with newer keys")...))
	theirs.expect(far, handshakeRecord, update)
	theirs = theirs.updated()
	theirs.expect(far, dataRecord, "with newer keys")
	for _, want := range []string{"with new keys", "with newer keys"} {
		if got := wstest.Receive(t, arrived, "data"); got != want {
			t.Errorf("received %q; want %q", got, want)
		}
	}
	select {
	case got := <-arrived:
		t.Errorf("received %q, too", got)
	default:
	}
	if portable {
		return // crypto/tls fails when it cannot answer an update
	}
	on(t, c, c.CloseWrite)
	theirs.expect(far, 21, "\x01\x00") // close_notify
	send(ours.record(handshakeRecord, updateAndAnswer))
	ours = ours.updated()
	send(ours.record(dataRecord, "still heard"))
	if got := wstest.Receive(t, arrived, "data behind an update that cannot be answered any more"); got != "still heard" {
		t.Errorf("received %q", got)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes behind close_notify, %v", n, err)
	}
	_ = far.Close()
	if err := wstest.Receive(t, ended, "the end"); err != io.EOF {
		t.Errorf("ended with %v", err)
	}
}

// Session tickets are no data.
func TestTicketsAreNoData(t *testing.T) {
	near, far := securedBy(tls.VersionTLS13)(t)
	arrived := make(chan string, 10)
	add(t, group(t, 1).Pick(), near, &script{received: func(_ *Conn, b []byte) int {
		arrived <- string(b)
		return len(b)
	}}, nil)
	_, _ = far.Write([]byte("first"))
	if got := wstest.Receive(t, arrived, "data"); got != "first" {
		t.Errorf("received %q", got)
	}
}
