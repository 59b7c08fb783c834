package frame

import (
	"encoding/binary"
	"math/bits"
)

// textChecker checks UTF-8 (RFC 3629) in a masked payload that comes in pieces. The zero value is ready for a text. It is
// owned by its scanner.
type textChecker struct {
	need      uint8 // how many bytes the current character still needs
	low, high uint8 // the range of the next byte; it excludes overlong forms, surrogates and values beyond U+10FFFF
}

// complete reports whether the text so far ends with a whole character.
func (t *textChecker) complete() bool { return t.need == 0 }

// check takes the next piece of the text, and reports whether the text is valid so far. key is the masking key, rotated to the
// first byte of b; 0 if the text is not masked. check does not change b.
func (t *textChecker) check(b []byte, key uint32) bool {
	const highBits = 0x8080808080808080
	wide := uint64(key) | uint64(key)<<32
	i := 0
	for {
		if t.need == 0 {
			// Most text is ASCII: take eight bytes at a time while it is.
			for len(b)-i >= 8 && (binary.LittleEndian.Uint64(b[i:])^wide)&highBits == 0 {
				i += 8
			}
		}
		// Then take the rest of this group of eight byte by byte, so that i stays a multiple of the key's length.
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

// step takes one byte of the text, and reports whether the text is valid so far.
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
