package frame

import (
	"encoding/binary"
	"math/bits"
)

// textChecker checks UTF-8 (RFC 3629) in a masked payload that comes in pieces. The zero value stands at the start of
// a text. It holds what the character under way still needs: how many bytes, and the range that the next of them must
// lie in, which is what tells overlong forms, surrogates and values beyond U+10FFFF from valid text.
type textChecker struct {
	need      uint8
	low, high uint8
}

// complete tells whether the text so far ends with a whole character.
func (t *textChecker) complete() bool { return t.need == 0 }

// check takes the next piece of the text, masked with key (turned to the piece's first byte; 0 for plain text), and
// tells whether it may be followed by more text to become valid. It does not change b.
func (t *textChecker) check(b []byte, key uint32) bool {
	const highBits = 0x8080808080808080
	wide := uint64(key) | uint64(key)<<32
	i := 0
	for {
		if t.need == 0 {
			// Most text is ASCII: eight bytes at a time for as long as it is.
			for len(b)-i >= 8 && (binary.LittleEndian.Uint64(b[i:])^wide)&highBits == 0 {
				i += 8
			}
		}
		// Then byte by byte to the end of this group of eight, which keeps i on the key's rhythm.
		end := min(i+8, len(b))
		if i == end {
			return true
		}
		k := key
		for ; i < end; i++ {
			if !t.step(b[i] ^ byte(k)) {
				return false
			}
			k = bits.RotateLeft32(k, -8)
		}
	}
}

// step takes one byte of the text.
func (t *textChecker) step(c byte) bool {
	if t.need > 0 {
		if c < t.low || c > t.high {
			return false
		}
		t.need--
		t.low, t.high = 0x80, 0xbf
		return true
	}
	if c < 0x80 {
		return true
	}
	t.low, t.high = 0x80, 0xbf
	switch {
	case c < 0xc2: // a continuation byte, or an overlong form of ASCII
		return false
	case c < 0xe0:
		t.need = 1
	case c < 0xf0:
		t.need = 2
		if c == 0xe0 {
			t.low = 0xa0
		} else if c == 0xed {
			t.high = 0x9f
		}
	case c < 0xf5:
		t.need = 3
		if c == 0xf0 {
			t.low = 0x90
		} else if c == 0xf4 {
			t.high = 0x8f
		}
	default:
		return false
	}
	return true
}
