package profile

import (
	"github.com/tinylib/msgp/msgp"
)

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
