package tlsrecord

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// suite is how a cipher suite protects records and derives keys.
type suite struct {
	keySize int // in bytes
	hash    func() hash.Hash
	aead    func(key []byte) (cipher.AEAD, error)
}

// suiteOf returns the suite with the number that TLS has for it. It fails for those that do not use an AEAD.
func suiteOf(id uint16) (suite, error) {
	switch id {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
		return suite{keySize: 16, hash: sha256.New, aead: gcm}, nil
	case tls.TLS_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:
		return suite{keySize: 32, hash: sha512.New384, aead: gcm}, nil
	case tls.TLS_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		return suite{keySize: chacha20poly1305.KeySize, hash: sha256.New, aead: chacha20poly1305.New}, nil
	}
	return suite{}, fmt.Errorf("records of %s are left to crypto/tls", tls.CipherSuiteName(id))
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// half protects one direction of a connection.
type half struct {
	aead   cipher.AEAD
	secret []byte // the traffic secret, of which the keys and the next secret are made; nil with TLS 1.2
	seq    uint64 // the sequence number of the next record
	// With an explicit nonce, a record begins with 8 bytes of its nonce: TLS 1.2 with AES-GCM (RFC 5288, section 3).
	explicit bool
	mask     uint64   // the last 8 bytes of the IV: the nonce has them XOR the sequence number (RFC 8446, section 5.3)
	nonce    [12]byte // begins with the first 4 bytes of the IV; the rest is set for each record
	extra    [13]byte // the additional data of TLS 1.2, set for each record
}

// setIV sets what is fixed of the nonces. With an explicit nonce, iv has 4 bytes, else 12.
func (h *half) setIV(iv []byte) {
	copy(h.nonce[:4], iv)
	if h.explicit {
		h.mask = 0
		return
	}
	h.mask = binary.BigEndian.Uint64(iv[4:])
}

// setNonce sets the nonce of the record with the current sequence number.
func (h *half) setNonce() { binary.BigEndian.PutUint64(h.nonce[4:], h.mask^h.seq) }

// setExtra sets the additional data of a record of TLS 1.2 (RFC 5246, section 6.2.3.3), whose content has size bytes.
func (h *half) setExtra(kind byte, size int) {
	binary.BigEndian.PutUint64(h.extra[:], h.seq)
	h.extra[8], h.extra[9], h.extra[10] = kind, 3, 3
	binary.BigEndian.PutUint16(h.extra[11:], uint16(size))
}

// setSecret makes the keys of TLS 1.3 from a traffic secret (RFC 8446, section 7.3).
func (h *half) setSecret(s suite, secret []byte) error {
	key, err := expandLabel(s, secret, "key", s.keySize)
	if err != nil {
		return err
	}
	iv, err := expandLabel(s, secret, "iv", len(h.nonce))
	if err != nil {
		return err
	}
	if h.aead, err = s.aead(key); err != nil {
		return err
	}
	h.setIV(iv)
	h.secret, h.seq = secret, 0
	clear(key)
	return nil
}

// update switches to the next keys (RFC 8446, section 7.2). The suite is the one that the keys are for, so nothing can fail.
func (h *half) update(s suite) {
	next, err := expandLabel(s, h.secret, "traffic upd", len(h.secret))
	if err == nil {
		clear(h.secret)
		err = h.setSecret(s, next)
	}
	if err != nil {
		panic(fmt.Sprintf("tlsrecord: next keys: %v", err))
	}
}

// expandLabel is HKDF-Expand-Label without a context (RFC 8446, section 7.1).
func expandLabel(s suite, secret []byte, label string, size int) ([]byte, error) {
	label = "tls13 " + label
	info := append([]byte{byte(size >> 8), byte(size), byte(len(label))}, label...)
	return hkdf.Expand(s.hash, secret, string(append(info, 0)), size)
}

// expand12 is the PRF of TLS 1.2 (RFC 5246, section 5).
func expand12(newHash func() hash.Hash, secret []byte, label string, seed []byte, size int) []byte {
	seed = append([]byte(label), seed...)
	mac := hmac.New(newHash, secret)
	sum := func(parts ...[]byte) []byte {
		mac.Reset()
		for _, part := range parts {
			mac.Write(part)
		}
		return mac.Sum(nil)
	}
	var out []byte
	for a := sum(seed); len(out) < size; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:size]
}
