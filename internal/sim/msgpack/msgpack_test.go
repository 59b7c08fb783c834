package msgpack

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// What is encoded is decoded to the same.
func TestRoundTrip(t *testing.T) {
	long := strings.Repeat("x", 300)
	b := AppendMap(nil, 6)
	b = AppendString(AppendString(b, "type"), "Word")
	b = AppendString(AppendString(b, "long"), long)
	b = AppendInt(AppendString(b, "small"), 5)
	b = AppendInt(AppendString(b, "large"), -1<<40)
	b = AppendFloat(AppendString(b, "time"), 1.25)
	pcm := Floats{1, 2, 3, 4, 0xff, 0xff, 0xff, 0x7f} // the second is no number
	b = AppendFloats(AppendString(b, "pcm"), pcm)
	got, rest, err := Decode(append(b, 'z'))
	want := map[string]any{"type": "Word", "long": long, "small": int64(5), "large": int64(-1 << 40), "time": 1.25, "pcm": pcm}
	if err != nil || string(rest) != "z" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %q, %v; want %v", got, rest, err, want)
	}
	for n := range b { // cut anywhere
		if value, _, err := Decode(b[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for %v", n, value)
		}
	}
}

// Examples worked out from the specification, github.com/msgpack/msgpack/blob/master/spec.md.
func TestDecode(t *testing.T) {
	for text, want := range map[string]any{
		"c0":                       nil,
		"c2":                       false,
		"c3":                       true,
		"7f":                       int64(127),
		"e0":                       int64(-32),
		"ccff":                     int64(255),
		"cd0100":                   int64(256),
		"ce00010000":               int64(65536),
		"d0ff":                     int64(-1),
		"d1ff00":                   int64(-256),
		"d2fffffffe":               int64(-2),
		"ca3fc00000":               1.5,
		"cb3ff8000000000000":       1.5,
		"a161":                     "a",
		"d90161":                   "a",
		"da000161":                 "a",
		"920102":                   []any{int64(1), int64(2)},
		"91ca3f800000":             Floats{0, 0, 0x80, 0x3f},
		"dc0001cb3ff0000000000000": Floats{0, 0, 0x80, 0x3f},
		"81a16101":                 map[string]any{"a": int64(1)},
		"de0001a16101":             map[string]any{"a": int64(1)},
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, rest, err := Decode(b); err != nil || len(rest) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v; want %#v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"c1":             "type 0xc1",
		"8101":           "breaks off|ends in the middle|not a string",
		"810101":         "not a string",
		"92ca3f80000001": "or holds something else",
		"ddffffffff":     "ends in the middle",
	} {
		b, _ := hex.DecodeString(text)
		_, _, err := Decode(b)
		if err == nil || !containsAny(err.Error(), strings.Split(want, "|")) {
			t.Errorf("%s: got %v; want %q", text, err, want)
		}
	}
	if _, _, err := Decode(bytes.Repeat([]byte{0x91}, 100)); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("got %v", err)
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
