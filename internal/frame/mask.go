package frame

import (
	"encoding/binary"
	"math/bits"
)

// ApplyMask masks or unmasks b in place (RFC 6455, section 5.3) and returns the key turned so that it fits the byte
// after b, for payloads that come in pieces.
func ApplyMask(b []byte, key uint32) uint32 {
	if key == 0 { // a server's payload
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

// turnMask returns the key turned so that it fits the byte n places further on in the payload.
func turnMask(key uint32, n int) uint32 { return bits.RotateLeft32(key, -8*(n&3)) }
