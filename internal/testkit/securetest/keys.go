package securetest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"
	"testing"
)

// Keys protect one direction of a TLS 1.3 connection (RFC 8446, section 7.3) with AES-128-GCM. Package crypto/tls never
// updates keys by itself, so the test does it.
type Keys struct {
	t        *testing.T
	secret   []byte
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
}

// NewKeys returns the keys that follow from a secret, which [SecretOf] finds.
func NewKeys(t *testing.T, secret []byte) *Keys {
	t.Helper()
	k := &Keys{t: t, secret: secret}
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
func (k *Keys) expand(label string, length int) []byte {
	k.t.Helper()
	info := append([]byte{0, byte(length), byte(len("tls13 " + label))}, "tls13 "+label+"\x00"...)
	out, err := hkdf.Expand(sha256.New, k.secret, string(info), length)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// Updated returns the keys that follow (RFC 8446, section 7.2).
func (k *Keys) Updated() *Keys { return NewKeys(k.t, k.expand("traffic upd", 32)) }

func (k *Keys) nonce() []byte {
	nonce := bytes.Clone(k.iv)
	last := nonce[4:]
	binary.BigEndian.PutUint64(last, binary.BigEndian.Uint64(last)^k.sequence)
	k.sequence++
	return nonce
}

// Record returns a record of a type: 22 for a handshake message, 23 for data.
func (k *Keys) Record(kind byte, content string) []byte {
	inner := append([]byte(content), kind)
	header := []byte{23, 3, 3, 0, byte(len(inner) + 16)}
	return k.aead.Seal(header, k.nonce(), inner, header)
}

// Expect reads a record, whose type and content must be these.
func (k *Keys) Expect(from io.Reader, kind byte, content string) {
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

// SecretOf reads a secret from what a KeyLogWriter was given.
func SecretOf(t *testing.T, log, label string) []byte {
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
