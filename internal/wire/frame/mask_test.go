package frame

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// naiveMask is RFC 6455, section 5.3, word for word.
func naiveMask(b []byte, key [4]byte, offset int) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ key[(offset+i)%4]
	}
	return out
}

func TestApplyMask(t *testing.T) {
	key := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	source := make([]byte, 80)
	for i := range source {
		source[i] = byte(i * 7)
	}
	for start := range 16 { // the alignment in memory
		for length := range len(source) - start {
			whole := bytes.Clone(source)
			ApplyMask(whole[start:start+length], testKey)
			if want := naiveMask(source[start:start+length], key, 0); !bytes.Equal(whole[start:start+length], want) {
				t.Fatalf("start %d, length %d: % x, want % x", start, length, whole[start:start+length], want)
			}
			if !bytes.Equal(whole[:start], source[:start]) || !bytes.Equal(whole[start+length:], source[start+length:]) {
				t.Fatalf("start %d, length %d: bytes outside were changed", start, length)
			}
		}
	}
}

func TestApplyMaskInPieces(t *testing.T) {
	want := naiveMask(make([]byte, 40), [4]byte{0x37, 0xfa, 0x21, 0x3d}, 0)
	for first := range 20 {
		for second := range 20 {
			b := make([]byte, 40)
			key := ApplyMask(b[:first], testKey)
			if key != rotateKey(testKey, first) {
				t.Fatalf("after %d bytes the key is %08x, rotateKey says %08x", first, key, rotateKey(testKey, first))
			}
			key = ApplyMask(b[first:first+second], key)
			ApplyMask(b[first+second:], key)
			if !bytes.Equal(b, want) {
				t.Fatalf("pieces of %d, %d and the rest: % x", first, second, b)
			}
		}
	}
}

// validSoFar reports whether text can be continued to become valid, by the standard library.
func validSoFar(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			return !utf8.FullRune(text)
		}
		text = text[size:]
	}
	return true
}

// textVerdict runs the checker over the text, masked, in the given pieces.
func textVerdict(text []byte, key uint32, cuts ...int) (soFar, complete bool) {
	wire := bytes.Clone(text)
	ApplyMask(wire, key)
	var checker textChecker
	from := 0
	for _, cut := range append(cuts, len(wire)) {
		if !checker.check(wire[from:cut], rotateKey(key, from)) {
			return false, false
		}
		from = cut
	}
	return true, checker.complete()
}

func TestTextChecker(t *testing.T) {
	tests := []struct {
		name            string
		text            string
		soFar, complete bool
	}{
		{"empty", "", true, true},
		{"ASCII", "the quick brown fox jumps over the lazy dog", true, true},
		{"NUL and DEL", "\x00\x7f", true, true},
		{"two bytes, first and last", "\u0080\u07ff", true, true},
		{"three bytes, first and last", "\u0800\uffff", true, true},
		{"around the surrogates", "\ud7ff\ue000", true, true},
		{"four bytes, first and last", "\U00010000\U0010ffff", true, true},
		{"the RFC's example of its last section", "Hello-µ@ßöäüàá-UTF-8!!", true, true},
		{"non-characters", "\ufffe\U0001fffe", true, true},
		{"Japanese", "音声認識の結果です。", true, true},
		{"one byte of two", "ab\xc3", true, false},
		{"two bytes of three", "ab\xe3\x81", true, false},
		{"three bytes of four", "ab\xf0\x9f\x98", true, false},
		{"lone continuation", "\x80", false, false},
		{"continuation behind a character", "é\x80", false, false},
		{"overlong NUL", "\xc0\x80", false, false},
		{"overlong slash in two", "\xc0\xaf", false, false},
		{"overlong in two, last", "\xc1\xbf", false, false},
		{"overlong in three", "\xe0\x80\xaf", false, false},
		{"overlong in three, last", "\xe0\x9f\xbf", false, false},
		{"overlong in four", "\xf0\x80\x80\xaf", false, false},
		{"overlong in four, last", "\xf0\x8f\xbf\xbf", false, false},
		{"first surrogate", "\xed\xa0\x80", false, false},
		{"last surrogate", "\xed\xbf\xbf", false, false},
		{"a pair of surrogates", "\xed\xa0\xbd\xed\xb8\x80", false, false},
		{"U+110000", "\xf4\x90\x80\x80", false, false},
		{"five bytes", "\xf8\x88\x80\x80\x80", false, false},
		{"six bytes", "\xfc\x84\x80\x80\x80\x80", false, false},
		{"fe", "\xfe", false, false},
		{"ff", "\xff", false, false},
		{"character cut short by ASCII", "\xe3\x81a", false, false},
		{"character cut short by much ASCII", "\xe3abcdefghijklmnopqrstuvwx", false, false},
		{"character cut short by another", "\xe3\xe3\x81\x82", false, false},
		{"bad in the middle of ASCII", "0123456789abcdef\xff0123456789abcdef", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := []byte(test.text)
			if utf8.Valid(text) != (test.soFar && test.complete) || validSoFar(text) != test.soFar {
				t.Fatal("the table disagrees with the standard library")
			}
			for _, padding := range []string{"", "a", "padding", "12345678", "padding padding"} { // shifts the text within the groups of eight
				padded := append([]byte(padding), text...)
				for cut := range len(padded) + 1 {
					for _, key := range []uint32{0, testKey, 0xffffffff, 0x80808080} {
						soFar, complete := textVerdict(padded, key, cut)
						if soFar != test.soFar || complete != (test.soFar && test.complete) {
							t.Fatalf("after %q, key %08x, cut at %d: %v, %v; want %v, %v", padding, key, cut, soFar, complete, test.soFar, test.complete)
						}
					}
				}
			}
		})
	}
}

func TestTextCheckerLeavesTheBytes(t *testing.T) {
	b := []byte("some text, masked or not, 漢字")
	before := bytes.Clone(b)
	var checker textChecker
	checker.check(b, 0)
	if !bytes.Equal(b, before) {
		t.Error("check changed the bytes")
	}
}

// Every sequence of up to three bytes, and those of four bytes for all values of their first two, which cover all edges of ranges.
func TestTextCheckerShortSequences(t *testing.T) {
	agree := func(text []byte) {
		var checker textChecker
		soFar := checker.check(text, 0)
		if want := validSoFar(text); soFar != want || soFar && checker.complete() != utf8.Valid(text) {
			t.Fatalf("% x: so far %v, complete %v; the standard library says %v, %v", text, soFar, checker.complete(), want, utf8.Valid(text))
		}
	}
	edges := []byte{0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff}
	for a := range 256 {
		agree([]byte{byte(a)})
		for b := range 256 {
			agree([]byte{byte(a), byte(b)})
			for _, c := range edges {
				agree([]byte{byte(a), byte(b), c})
				for _, d := range edges {
					agree([]byte{byte(a), byte(b), c, d})
				}
			}
		}
	}
}

// textual draws bytes that are mostly valid text, with some damage.
func textual(t *rapid.T) []byte {
	text := []byte(rapid.StringN(0, 60, -1).Draw(t, "text"))
	if len(text) > 0 && rapid.Bool().Draw(t, "damaged") {
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "cut") {
			return text[:at]
		}
		text[at] = rapid.Byte().Draw(t, "byte")
	}
	return text
}

func TestTextCheckerAgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := textual(t)
		key := rapid.Uint32().Draw(t, "key")
		second := rapid.IntRange(0, len(text)).Draw(t, "second cut")
		for first := range second + 1 {
			soFar, complete := textVerdict(text, key, first, second)
			if soFar != validSoFar(text) || (soFar && complete) != utf8.Valid(text) {
				t.Fatalf("% x cut at %d and %d: %v, %v", text, first, second, soFar, complete)
			}
		}
	})
}

func FuzzTextChecker(f *testing.F) {
	f.Add([]byte("plain text that is long enough for the fast path"), uint32(0))
	f.Add([]byte("日本語のテキスト"), uint32(testKey))
	f.Add([]byte("12345678\xed\xa0\x8012345678"), uint32(0xffffffff))
	f.Add([]byte("\xf4\x90\x80\x80"), uint32(1))
	f.Fuzz(func(t *testing.T, text []byte, key uint32) {
		if len(text) > 1<<10 {
			return
		}
		wantSoFar, want := validSoFar(text), utf8.Valid(text)
		for cut := range len(text) + 1 {
			soFar, complete := textVerdict(text, key, cut)
			if soFar != wantSoFar || (soFar && complete) != want {
				t.Fatalf("% x cut at %d: %v, %v; want %v, %v", text, cut, soFar, complete, wantSoFar, want)
			}
		}
	})
}
