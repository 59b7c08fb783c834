package profile

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// jsonProgram holds conditions on values in JSON, or in MessagePack: at most 64. It is immutable.
type jsonProgram struct {
	*pathSet
	conditions []compiled // by path
	capture    int        // the condition whose text to capture; -1 for none
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
	var paths []jsonPath
	for _, c := range conditions {
		d := compiled{condition: c}
		switch c.kind {
		case jsonNumber:
			d.number, _ = strconv.ParseFloat(c.text, 64)
		case jsonString:
			d.before, d.after, d.marked = strings.Cut(c.text, tokenMark)
		}
		p.conditions, paths = append(p.conditions, d), append(paths, c.path)
	}
	p.pathSet = newPathSet(paths...)
	if capturing {
		p.capture = len(conditions) - 1
	}
	return p
}

// holds reports whether a JSON text meets all conditions of the program.
func (p *jsonProgram) holds(text []byte) bool {
	s := jsonScanner{b: text, program: p}
	return s.scan() && s.matched == p.all && s.ambiguous == 0
}

// holds reports whether a value meets a condition. It notes the text to capture.
func (s *jsonScanner) holds(c *compiled, h hit) bool {
	switch c.kind {
	case jsonAny:
		if int(h.path) == s.program.capture {
			if h.kind != hitText {
				return false
			}
			s.captureFrom, s.captureTo, s.captureEscaped = h.from, h.to, h.escaped
		}
		return true
	case jsonString:
		return h.kind == hitText && (!c.marked && s.equal(h.from, h.to, h.escaped, c.text) || c.marked && s.equalMarked(h.from, h.to, h.escaped, c))
	case jsonNumber:
		return h.kind == hitNumber && c.isNumber(s.b[h.from:h.to])
	case jsonTrue:
		return s.b[h.from] == 't' && h.kind == hitOther
	case jsonFalse:
		return s.b[h.from] == 'f' && h.kind == hitOther
	case jsonNull:
		return s.b[h.from] == 'n' && h.kind == hitOther
	}
	return false
}

// isNumber reports whether a number is the one that the condition requires.
func (c *compiled) isNumber(literal []byte) bool {
	if string(literal) == c.text {
		return true
	}
	// The same number may be written in other ways. ParseFloat does not keep its argument.
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(literal), len(literal)), 64)
	return err == nil && v == c.number
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
