package frame

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// Header is the decoded header of one frame.
type Header struct {
	Fin    bool
	Opcode Opcode
	Masked bool
	// Mask is the masking key as [ApplyMask] takes it: the first byte on the wire in the lowest bits. It is 0 if the frame is not
	// masked.
	Mask uint32
	// Length is the payload's length in bytes.
	Length int64
}

// Unfragmented returns how long the message at the start of b is on the wire, in bytes, if it is a single frame of which b has all;
// otherwise 0.
func Unfragmented(b []byte, masked bool) int {
	h, size, err := ParseHeader(b)
	if err != nil || size == 0 || !h.Fin || h.Masked != masked || h.Opcode != Text && h.Opcode != Binary || h.Length > int64(len(b)-size) {
		return 0
	}
	return size + int(h.Length)
}

// ParseHeader decodes the header at the start of b. It returns the header's length in bytes, or 0 if b does not have all of it yet.
// It checks, as early as the bytes allow, what can be checked without knowing what came before: reserved bits and opcodes, the form
// of control frames, and the encoding of the length (RFC 6455, sections 5.2 and 5.5).
func ParseHeader(b []byte) (h Header, size int, err error) {
	if len(b) == 0 {
		return h, 0, nil
	}
	first := b[0]
	if first&0x70 != 0 {
		return h, 0, ErrReservedBits
	}
	h.Fin = first&0x80 != 0
	h.Opcode = Opcode(first & 0x0f)
	if h.Opcode > Pong || h.Opcode > Binary && h.Opcode < Close {
		return h, 0, ErrReservedOpcode
	}
	if h.Opcode.IsControl() && !h.Fin {
		return h, 0, ErrFragmentedControl
	}
	if len(b) < 2 {
		return h, 0, nil
	}
	h.Masked = b[1]&0x80 != 0
	h.Length = int64(b[1] & 0x7f)
	if h.Opcode.IsControl() && h.Length > MaxControlPayload {
		return h, 0, ErrLongControl
	}
	size = 2
	switch h.Length {
	case 126:
		if len(b) < 4 {
			return h, 0, nil
		}
		h.Length = int64(binary.BigEndian.Uint16(b[2:]))
		if h.Length < 126 {
			return h, 0, ErrLengthEncoding
		}
		size = 4
	case 127:
		if len(b) < 10 {
			return h, 0, nil
		}
		length := binary.BigEndian.Uint64(b[2:])
		if length < 1<<16 || length >= 1<<63 {
			return h, 0, ErrLengthEncoding
		}
		h.Length = int64(length)
		size = 10
	}
	if h.Masked {
		if len(b) < size+4 {
			return h, 0, nil
		}
		h.Mask = binary.LittleEndian.Uint32(b[size:])
		size += 4
	}
	return h, size, nil
}

// AppendHeader appends h in its wire form to dst.
func AppendHeader(dst []byte, h Header) []byte {
	first := byte(h.Opcode)
	if h.Fin {
		first |= 0x80
	}
	var mask byte
	if h.Masked {
		mask = 0x80
	}
	switch {
	case h.Length < 126:
		dst = append(dst, first, mask|byte(h.Length))
	case h.Length < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, first, mask|126), uint16(h.Length))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, first, mask|127), uint64(h.Length))
	}
	if h.Masked {
		dst = binary.LittleEndian.AppendUint32(dst, h.Mask)
	}
	return dst
}

// Append appends a whole frame to dst: the header h, with its length set to the payload's, and the payload, masked if h says so. It
// does not change the payload.
func Append(dst []byte, h Header, payload []byte) []byte {
	h.Length = int64(len(payload))
	dst = AppendHeader(dst, h)
	start := len(dst)
	dst = append(dst, payload...)
	if h.Masked {
		ApplyMask(dst[start:], h.Mask)
	}
	return dst
}

// AppendControl appends a whole control frame to dst, with a random key if it is masked, as a client's must be.
func AppendControl(dst []byte, op Opcode, payload []byte, masked bool) []byte {
	return AppendMessage(dst, op, true, payload, masked)
}

// randomKey returns a masking key. The author of the payload must not be able to predict it (RFC 6455, section 10.3); the receiver
// may.
func randomKey() uint32 { return rand.Uint32() }

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
