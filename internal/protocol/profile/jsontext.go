package profile

import (
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// jsonProgram holds the conditions that a [jsonScanner] checks: at most 64, each a bit in the masks.
type jsonProgram struct {
	conditions []compiled
	all        uint64
	ending     [maxPath + 1]uint64 // by depth: the conditions whose path ends there

	any, yes, no, null uint64 // the conditions that require any value, true, false or null
	capture            int    // the condition whose text to capture; -1 for none
}

// compiled is a condition with what can be computed in advance.
type compiled struct {
	condition
	number float64
	// The text before and after the token, if marked.
	before, after string
	marked        bool
}

// newJSONProgram compiles the conditions. If capturing, the last one is the condition whose text to capture.
func newJSONProgram(conditions []condition, capturing bool) *jsonProgram {
	p := &jsonProgram{capture: -1}
	for i, c := range conditions {
		bit := uint64(1) << i
		p.all |= bit
		p.ending[len(c.path)] |= bit
		d := compiled{condition: c}
		switch c.kind {
		case jsonAny:
			p.any |= bit
		case jsonTrue:
			p.yes |= bit
		case jsonFalse:
			p.no |= bit
		case jsonNull:
			p.null |= bit
		case jsonNumber:
			d.number, _ = strconv.ParseFloat(c.text, 64)
		case jsonString:
			d.before, d.after, d.marked = strings.Cut(c.text, tokenMark)
		}
		p.conditions = append(p.conditions, d)
	}
	if capturing {
		p.capture = len(conditions) - 1
		p.any &^= 1 << p.capture // so that judgeText sees it
	}
	return p
}

// judgeText checks the conditions in here against a text.
func (s *jsonScanner) judgeText(here uint64, from, to int, escaped bool) {
	for ; here != 0; here &= here - 1 {
		i := bits.TrailingZeros64(here)
		c := &s.program.conditions[i]
		switch {
		case i == s.program.capture:
			s.captureFrom, s.captureTo = from, to
			if escaped { // another message could write the same tag in another way
				s.captureFrom = -1
			}
			s.matched |= 1 << i
		case c.kind != jsonString:
		case !c.marked && s.equal(from, to, escaped, c.text),
			c.marked && s.equalMarked(from, to, escaped, c):
			s.matched |= 1 << i
		}
	}
}

// judgeNumber checks the conditions in here against a number.
func (s *jsonScanner) judgeNumber(here uint64, literal []byte) {
	for ; here != 0; here &= here - 1 {
		i := bits.TrailingZeros64(here)
		c := &s.program.conditions[i]
		if c.kind != jsonNumber {
			continue
		}
		if string(literal) == c.text {
			s.matched |= 1 << i
			continue
		}
		// The same number may be written in other ways. ParseFloat does not keep its argument.
		if v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(literal), len(literal)), 64); err == nil && v == c.number {
			s.matched |= 1 << i
		}
	}
}

// equal compares what is between quotes with a text.
func (s *jsonScanner) equal(from, to int, escaped bool, want string) bool {
	if !escaped {
		return string(s.b[from:to]) == want
	}
	rest, ok := s.unescapedPrefix(from, to, want)
	return ok && rest == to
}

// equalMarked compares what is between quotes with a text that contains the token.
func (s *jsonScanner) equalMarked(from, to int, escaped bool, c *compiled) bool {
	rest, ok := s.unescapedPrefix(from, to, c.before)
	if ok {
		rest, ok = s.unescapedPrefix(rest, to, unsafe.String(&s.digits[0], tokenSize))
	}
	if ok {
		rest, ok = s.unescapedPrefix(rest, to, c.after)
	}
	return ok && rest == to
}

// unescapedPrefix reports whether what is between quotes, unescaped, begins with a text. rest is where it continues.
func (s *jsonScanner) unescapedPrefix(from, to int, want string) (rest int, ok bool) {
	for want != "" {
		if from == to {
			return from, false
		}
		if s.b[from] != '\\' {
			if s.b[from] != want[0] {
				return from, false
			}
			from, want = from+1, want[1:]
			continue
		}
		c, length := unescape(s.b[from:to])
		var encoded [utf8.UTFMax]byte
		n := utf8.EncodeRune(encoded[:], c)
		if len(want) < n || want[:n] != string(encoded[:n]) {
			return from, false
		}
		from, want = from+length, want[n:]
	}
	return from, true
}

// unescape returns the character that the valid escape at the start of b stands for, and the escape's length. Half of a
// surrogate pair stands for U+FFFD.
func unescape(b []byte) (c rune, length int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		c = hexRune(b)
		if !utf16.IsSurrogate(c) {
			return c, 6
		}
		if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if pair := utf16.DecodeRune(c, hexRune(b[6:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(b[1]), 2
}

// hexRune returns the value of the four hexadecimal digits of the escape \uXXXX at the start of b, or -1 if they are not there.
func hexRune(b []byte) rune {
	if len(b) < 6 {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
