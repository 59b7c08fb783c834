// Package apikey makes API keys, and authenticates clients by them. It does no I/O.
//
// A key is 32 random characters (160 bits) with a prefix and a checksum. The configuration has only its SHA-256 hash. A slow hash such as
// bcrypt or Argon2 protects passwords, which people choose and which can therefore be guessed from their hash; an attacker cannot guess 160 random
// bits, however fast the hash is. So a fast hash loses nothing, and a client that sends wrong keys costs the proxy a microsecond
// instead of a tenth of a second.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

// Prefix begins every key, so that people and secret scanners recognise one.
const Prefix = "wsb_"

const (
	randomBytes  = 20 // 160 bits
	randomDigits = randomBytes * 8 / 5
	checkDigits  = 6 // of a CRC-32, so that a typing mistake is distinguished from an unknown key
	// Length is the length of every key, in bytes.
	Length = len(Prefix) + randomDigits + checkDigits
)

// alphabet has no 0, 1, 8 and 9, which are mistaken for O, l and B.
var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// New returns a new key.
func New() string {
	var random [randomBytes]byte
	_, _ = rand.Read(random[:]) // it never fails: it ends the program instead
	digits := encoding.EncodeToString(random[:])
	return Prefix + digits + checksum(digits)
}

// checksum returns the last characters of the key with these digits.
func checksum(digits string) string {
	sum := crc32.ChecksumIEEE([]byte(digits))
	var text [checkDigits]byte
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	for i := range text {
		text[i] = letters[sum&31]
		sum >>= 5
	}
	return string(text[:])
}

// Valid reports whether a text has the form of a key. Whether such a key exists is another question.
func Valid(text string) bool {
	if len(text) != Length || !strings.HasPrefix(text, Prefix) {
		return false
	}
	digits := text[len(Prefix) : len(Prefix)+randomDigits]
	return checksum(digits) == text[len(Prefix)+randomDigits:]
}

// Hash is the hash of a key.
type Hash [sha256.Size]byte

// HashOf returns the hash of a key.
func HashOf(key string) Hash { return sha256.Sum256([]byte(key)) }

// hashPrefix names the hash function, so that another one can follow.
const hashPrefix = "sha256:"

// String returns the hash as the configuration has it: sha256: and 64 hexadecimal digits.
func (h Hash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

// ParseHash reads what String returns.
func ParseHash(text string) (h Hash, ok bool) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok || len(digits) != 2*len(h) {
		return Hash{}, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}
