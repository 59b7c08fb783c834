package profile

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/tinylib/msgp/msgp"
)

// MessagePack (github.com/msgpack/msgpack, spec.md) has the values of JSON in binary messages. Paths and conditions mean the same in both.

// matchPacked returns the conditions that a message meets, and those whose path leads to two values. Both are 0 if it is not valid.
func matchPacked(b []byte, p *jsonProgram) (matched, ambiguous uint64) {
	c := packedCollector{b: b, set: p.pathSet, judge: p.conditions}
	if !c.value(p.all, 0) || c.pos != len(b) {
		return 0, 0
	}
	return c.matched, c.ambiguous
}

// holds reports whether a value meets the condition.
func (c *compiled) holds(b []byte, h hit) bool {
	switch c.kind {
	case jsonAny:
		return true
	case jsonString:
		return h.kind == hitText && string(b[h.from:h.to]) == c.text
	case jsonNumber:
		v, _, ok := packedNumber(b[h.from:h.to])
		return h.kind == hitNumber && ok && v == c.number
	case jsonTrue:
		return h.kind == hitOther && b[h.from] == 0xc3
	case jsonFalse:
		return h.kind == hitOther && b[h.from] == 0xc2
	case jsonNull:
		return h.kind == hitOther && b[h.from] == 0xc0
	}
	return false
}

// packedCollector reads a MessagePack message once, and finds the values to which paths lead, in their order. It allocates nothing but hits.
type packedCollector struct {
	b    []byte
	pos  int
	set  *pathSet
	hits []hit

	// If not nil, the conditions on these values, which it judges instead of keeping hits.
	judge                    []compiled
	seen, matched, ambiguous uint64
}

// collectPacked does for a MessagePack message what [collect] does for JSON. A number's hit is all of its bytes, a text's only the text.
func collectPacked(hits []hit, b []byte, set *pathSet, live uint64) ([]hit, bool) {
	c := packedCollector{b: b, set: set, hits: hits}
	ok := c.value(live, 0)
	return c.hits, ok && c.pos == len(b) && len(c.hits) <= maxHits
}

// value reads a value. live are the paths that lead to or through it after depth steps.
func (c *packedCollector) value(live uint64, depth int) bool {
	if c.pos == len(c.b) || depth > maxDepth {
		return false
	}
	here := live & c.set.ending[depth]
	live &^= here
	h := hit{from: c.pos}
	ok := false
	switch msgp.NextType(c.b[c.pos:]) {
	case msgp.MapType:
		ok = c.fields(live, depth)
	case msgp.ArrayType:
		h.kind = hitList
		ok = c.items(live, depth)
	case msgp.StrType:
		h.kind = hitText
		text, rest, err := msgp.ReadStringZC(c.b[c.pos:])
		c.pos = len(c.b) - len(rest)
		h.from, ok = c.pos-len(text), err == nil
	case msgp.IntType, msgp.UintType, msgp.Float32Type, msgp.Float64Type:
		h.kind = hitNumber
		ok = c.skip()
	default:
		ok = c.skip()
	}
	h.to = c.pos
	for ; ok && here != 0; here &= here - 1 {
		h.path = uint8(bits.TrailingZeros64(here))
		switch {
		case c.judge != nil:
			c.ambiguous |= c.seen & (1 << h.path)
			c.seen |= 1 << h.path
			if c.judge[h.path].holds(c.b, h) {
				c.matched |= 1 << h.path
			}
		case len(c.hits) <= maxHits:
			c.hits = append(c.hits, h)
		}
	}
	return ok
}

// skip passes over a value.
func (c *packedCollector) skip() bool {
	rest, err := msgp.Skip(c.b[c.pos:])
	c.pos = len(c.b) - len(rest)
	return err == nil
}

func (c *packedCollector) fields(live uint64, depth int) bool {
	if live == 0 {
		return c.skip()
	}
	n, rest, err := msgp.ReadMapHeaderBytes(c.b[c.pos:])
	if err != nil {
		return false
	}
	c.pos = len(c.b) - len(rest)
	for range n {
		var below uint64
		if msgp.NextType(c.b[c.pos:]) == msgp.StrType {
			name, rest, err := msgp.ReadStringZC(c.b[c.pos:])
			if err != nil {
				return false
			}
			c.pos = len(c.b) - len(rest)
			for left := live; left != 0; left &= left - 1 {
				i := bits.TrailingZeros64(left)
				if s := &c.set.paths[i][depth]; s.index != allItems && s.key == string(name) {
					below |= 1 << i
				}
			}
		} else if !c.skip() {
			return false
		}
		if !c.value(below, depth+1) {
			return false
		}
	}
	return true
}

func (c *packedCollector) items(live uint64, depth int) bool {
	if live == 0 {
		return c.skip()
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(c.b[c.pos:])
	if err != nil {
		return false
	}
	c.pos = len(c.b) - len(rest)
	for item := range int(n) {
		if !c.value(c.set.items(live, depth, item), depth+1) {
			return false
		}
	}
	return true
}

// packedNumber returns the number in b. whole: it is an integer.
func packedNumber(b []byte) (v float64, whole, ok bool) {
	switch msgp.NextType(b) {
	case msgp.Float64Type:
		v, _, err := msgp.ReadFloat64Bytes(b)
		return v, false, err == nil
	case msgp.Float32Type:
		v, _, err := msgp.ReadFloat32Bytes(b)
		return float64(v), false, err == nil
	case msgp.UintType:
		v, _, err := msgp.ReadUint64Bytes(b)
		return float64(v), true, err == nil
	case msgp.IntType:
		v, _, err := msgp.ReadInt64Bytes(b)
		return float64(v), true, err == nil
	}
	return 0, false, false
}

// packedTime returns a time in nanoseconds. ok is false for negative ones and those that are out of range.
func packedTime(b []byte, kind hitKind, unit TimeUnit) (nanos int64, ok bool) {
	if kind == hitText {
		return parseTime(b, unit)
	}
	v, _, ok := packedNumber(b)
	if v *= 1e9; unit == UnitMilliseconds {
		v /= 1e3
	}
	if !ok || unit == UnitClock || !(v >= 0 && v < 1<<62) {
		return 0, false
	}
	return int64(math.Round(v)), true
}

// shiftPacked appends a number with a time that is later by this many microseconds. A float keeps its size, so that times before and after it
// keep their precision. changed is false if it is no number.
func shiftPacked(dst, b []byte, unit TimeUnit, micros int64) (out []byte, changed bool) {
	v, whole, ok := packedNumber(b)
	add := float64(micros) / 1e6
	if unit == UnitMilliseconds {
		add = float64(micros) / 1e3
	}
	switch v += add; {
	case !ok || unit == UnitClock || math.IsNaN(v) || math.IsInf(v, 0):
		return dst, false
	case whole && math.Abs(v) < 1<<62:
		return msgp.AppendInt64(dst, int64(math.Round(v))), true
	case whole:
		return dst, false
	case len(b) == 5:
		return msgp.AppendFloat32(dst, float32(v)), true
	}
	return binary.BigEndian.AppendUint64(append(dst, b[0]), math.Float64bits(trim(v))), true
}

// trim returns the number with what adding up binary fractions has left behind its twelfth digit cut off: 8.56 instead of 8.560000000000001.
func trim(v float64) float64 {
	var room [32]byte
	text := strconv.AppendFloat(room[:0], v, 'g', 12, 64)
	short, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64) // ParseFloat does not keep its argument
	if err != nil {
		return v
	}
	return short
}

// Audio may be an array of floats in a MessagePack map, each with its own byte before it. A position counts four bytes for each, however
// it was encoded.

// floatSize is the size of a sample in positions.
const floatSize = 4

// findFloats finds the array under a key of a MessagePack map. It returns where the array begins, where its items begin, and how many it
// has. ok is false if the payload is no such map. There may be no array: then count is -1, and other reports whether the map
// has bytes or an array under another key, which may be audio in another form.
func findFloats(payload []byte, key string) (begin, items, count int, other, ok bool) {
	n, rest, err := msgp.ReadMapHeaderBytes(payload)
	if err != nil {
		return 0, 0, 0, false, false
	}
	for range n {
		name, after, err := msgp.ReadStringZC(rest)
		if err != nil {
			return 0, 0, 0, false, false
		}
		kind := msgp.NextType(after)
		if string(name) == key && kind == msgp.ArrayType {
			size, values, err := msgp.ReadArrayHeaderBytes(after)
			if err != nil || int64(size) > int64(len(values)) {
				return 0, 0, 0, false, false
			}
			return len(payload) - len(after), len(payload) - len(values), int(size), false, true
		}
		other = other || kind == msgp.BinType || kind == msgp.ArrayType
		if rest, err = msgp.Skip(after); err != nil {
			return 0, 0, 0, false, false
		}
	}
	return 0, 0, -1, other, true
}

// floatsLength returns how many bytes of decoded audio the message has: 0 if it has no such array. ok is false if it may have audio in another
// form.
func floatsLength(payload []byte, key string) (n int64, ok bool) {
	_, _, count, other, ok := findFloats(payload, key)
	if !ok || count < 0 {
		return 0, ok && !other
	}
	return int64(count) * floatSize, true
}

// appendFloats appends the floats of the message's array, in four bytes each, the least first.
func appendFloats(dst, payload []byte, key string) ([]byte, bool) {
	_, items, count, _, ok := findFloats(payload, key)
	if !ok {
		return dst, false
	}
	begin, rest := len(dst), payload[items:]
	for range count {
		after, err := msgp.Skip(rest)
		v, _, ok := packedNumber(rest[:len(rest)-len(after)])
		if err != nil || !ok {
			return dst[:begin], false
		}
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
		rest = after
	}
	return dst, true
}

// cutFloats appends the message without this many bytes of audio at the start of its array.
func cutFloats(dst, payload []byte, key string, skip int64) ([]byte, bool) {
	begin, items, count, _, ok := findFloats(payload, key)
	drop := skip / floatSize
	if !ok || drop > int64(count) {
		return dst, false
	}
	rest := payload[items:]
	kept := rest
	for i := range count { // all of them, so that no message that is broken is sent on in another form
		if int64(i) == drop {
			kept = rest
		}
		var err error
		if rest, err = msgp.Skip(rest); err != nil {
			return dst, false
		}
	}
	if drop == int64(count) {
		kept = rest
	}
	dst = append(dst, payload[:begin]...)
	dst = msgp.AppendArrayHeader(dst, uint32(int64(count)-drop))
	return append(dst, kept...), true
}
