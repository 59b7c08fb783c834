package frame

import (
	"encoding/binary"
	"math/bits"
)

// ApplyMask masks or unmasks b in place (RFC 6455, section 5.3). It returns the key rotated to the byte after b, for a payload
// that comes in pieces.
func ApplyMask(b []byte, key uint32) uint32 {
	if key == 0 { // the payload is not masked
		return 0
	}
	wide := uint64(key) | uint64(key)<<32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
	return key
}

// rotateKey returns the key rotated to the byte that is n bytes further on in the payload.
func rotateKey(key uint32, n int) uint32 { return bits.RotateLeft32(key, -8*(n&3)) }
