// Package msgpack encodes and decodes the few kinds of MessagePack values (github.com/msgpack/msgpack, spec.md) that Kyutai's
// speech server and its clients exchange: maps with strings as keys, strings, numbers, and arrays of numbers. It is for
// simulated servers and their clients. It does no I/O.
package msgpack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Floats are the elements of an array of floating-point numbers, each as its 32 bits, little-endian: samples as they stand
// in memory elsewhere.
type Floats []byte

// AppendMap appends the head of a map with n pairs, at most 15. Keys and values follow it by turns.
func AppendMap(dst []byte, n int) []byte { return append(dst, 0x80|byte(n)) }

// AppendString appends a string of at most 65535 bytes.
func AppendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	default:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	}
	return append(dst, s...)
}

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte {
	if n >= 0 && n < 0x80 {
		return append(dst, byte(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
}

// AppendFloat appends a floating-point number of 64 bits.
func AppendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f))
}

// AppendFloats appends an array of floating-point numbers of 32 bits, at most 65535 of them.
func AppendFloats(dst []byte, f Floats) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, 0xdc), uint16(len(f)/4))
	for ; len(f) >= 4; f = f[4:] {
		dst = append(dst, 0xca, f[3], f[2], f[1], f[0])
	}
	return dst
}

var errShort = errors.New("msgpack: the message ends in the middle of a value")

// maxDepth bounds how deep values may lie in one another.
const maxDepth = 8

// Decode decodes the value at the start of b and returns what follows it. A map is a map[string]any, an array of floating-point
// numbers is Floats, another array []any; an integer is an int64, a floating-point number a float64.
func Decode(b []byte) (value any, rest []byte, err error) { return decode(b, maxDepth) }

func decode(b []byte, depth int) (value any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errShort
	}
	if depth == 0 {
		return nil, nil, errors.New("msgpack: values lie too deep in one another")
	}
	kind := b[0]
	b = b[1:]
	switch {
	case kind < 0x80:
		return int64(kind), b, nil
	case kind < 0x90:
		return decodeMap(b, int(kind&0x0f), depth)
	case kind < 0xa0:
		return decodeArray(b, int(kind&0x0f), depth)
	case kind < 0xc0:
		return decodeString(b, int(kind&0x1f))
	case kind >= 0xe0:
		return int64(int8(kind)), b, nil
	}
	size, ok := sizes[kind]
	if !ok {
		return nil, nil, fmt.Errorf("msgpack: type 0x%02x is not understood", kind)
	}
	if len(b) < size {
		return nil, nil, errShort
	}
	n := uint64(0)
	for _, c := range b[:size] {
		n = n<<8 | uint64(c)
	}
	b = b[size:]
	switch kind {
	case 0xc0:
		return nil, b, nil
	case 0xc2, 0xc3:
		return kind == 0xc3, b, nil
	case 0xca:
		return float64(math.Float32frombits(uint32(n))), b, nil
	case 0xcb:
		return math.Float64frombits(n), b, nil
	case 0xcc, 0xcd, 0xce, 0xcf:
		return int64(n), b, nil
	case 0xd0, 0xd1, 0xd2, 0xd3:
		unused := 64 - 8*size
		return int64(n<<unused) >> unused, b, nil
	case 0xd9, 0xda:
		return decodeString(b, int(n))
	case 0xdc, 0xdd:
		return decodeArray(b, int(n), depth)
	default: // 0xde
		return decodeMap(b, int(n), depth)
	}
}

// sizes are the bytes of number, or of length, behind a type's byte.
var sizes = map[byte]int{
	0xc0: 0, 0xc2: 0, 0xc3: 0, // nil, false, true
	0xca: 4, 0xcb: 8, // floating-point
	0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, // unsigned
	0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, // signed
	0xd9: 1, 0xda: 2, // string
	0xdc: 2, 0xdd: 4, // array
	0xde: 2, // map
}

func decodeString(b []byte, n int) (any, []byte, error) {
	if len(b) < n {
		return nil, nil, errShort
	}
	return string(b[:n]), b[n:], nil
}

func decodeMap(b []byte, n, depth int) (any, []byte, error) {
	m := make(map[string]any)
	for range n {
		key, rest, err := decode(b, depth-1)
		if err != nil {
			return nil, nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, nil, fmt.Errorf("msgpack: the key %v of a map is not a string", key)
		}
		if m[name], b, err = decode(rest, depth-1); err != nil {
			return nil, nil, err
		}
	}
	return m, b, nil
}

func decodeArray(b []byte, n, depth int) (any, []byte, error) {
	if n > len(b) {
		return nil, nil, errShort
	}
	if n > 0 && (b[0] == 0xca || b[0] == 0xcb) {
		return decodeFloats(b, n)
	}
	var elements []any
	for range n {
		element, rest, err := decode(b, depth-1)
		if err != nil {
			return nil, nil, err
		}
		elements, b = append(elements, element), rest
	}
	return elements, b, nil
}

func decodeFloats(b []byte, n int) (any, []byte, error) {
	floats := make(Floats, 0, 4*n)
	for range n {
		switch {
		case len(b) >= 5 && b[0] == 0xca: // bit by bit, whatever number it is
			floats = append(floats, b[4], b[3], b[2], b[1])
			b = b[5:]
		case len(b) >= 9 && b[0] == 0xcb:
			f := float32(math.Float64frombits(binary.BigEndian.Uint64(b[1:])))
			floats = binary.LittleEndian.AppendUint32(floats, math.Float32bits(f))
			b = b[9:]
		default:
			return nil, nil, errors.New("msgpack: an array of floating-point numbers breaks off, or holds something else")
		}
	}
	return floats, b, nil
}
