package profile

import (
	"encoding/binary"
	"math/bits"
)

// jsonScanner reads a JSON text (RFC 8259) once, from the first byte to the last, and finds out which conditions of a [jsonProgram] the
// text meets. It allocates nothing.
type jsonScanner struct {
	b   []byte
	pos int

	program *jsonProgram
	digits  [tokenSize]byte // of the token, for conditions that contain it

	matched   uint64 // the conditions that are true
	ambiguous uint64 // the conditions whose path leads to two values, because of a duplicate key: it is not known whether they are true

	// Where the text that the program captures begins and ends, between its quotes; -1 for none.
	captureFrom, captureTo int
}

// maxDepth is the deepest nesting of a JSON text. Deeper ones count as invalid.
const maxDepth = 100

// scan reports whether the text is valid JSON. If it is not, matched, ambiguous and the captured text mean nothing.
func (s *jsonScanner) scan() bool {
	s.captureFrom = -1
	if !s.value(s.program.all, 0) {
		return false
	}
	s.space()
	return s.pos == len(s.b)
}

// space skips white space.
func (s *jsonScanner) space() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// value reads a value. live are the conditions whose path leads to or through this value after depth steps.
func (s *jsonScanner) value(live uint64, depth int) bool {
	s.space()
	if s.pos == len(s.b) || depth > maxDepth {
		return false
	}
	var here uint64 // the conditions on this very value
	if live != 0 {
		here = live & s.program.ending[depth]
		s.matched |= here & s.program.any
		live &^= here
		here &^= s.program.any
	}
	switch c := s.b[s.pos]; c {
	case '{':
		return s.object(live, depth)
	case '[':
		return s.array(live, depth)
	case '"':
		from, to, escaped, ok := s.text()
		if here != 0 && ok {
			s.judgeText(here, from, to, escaped)
		}
		return ok
	case 't':
		s.matched |= here & s.program.yes
		return s.word("true")
	case 'f':
		s.matched |= here & s.program.no
		return s.word("false")
	case 'n':
		s.matched |= here & s.program.null
		return s.word("null")
	default:
		from := s.pos
		ok := s.number()
		if here != 0 && ok {
			s.judgeNumber(here, s.b[from:s.pos])
		}
		return ok
	}
}

func (s *jsonScanner) object(live uint64, depth int) bool {
	s.pos++
	s.space()
	if s.pos < len(s.b) && s.b[s.pos] == '}' {
		s.pos++
		return true
	}
	var seen uint64
	for {
		s.space()
		if s.pos == len(s.b) || s.b[s.pos] != '"' {
			return false
		}
		from, to, escaped, ok := s.text()
		if !ok {
			return false
		}
		var below uint64
		for rest := live; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if s.equal(from, to, escaped, s.program.conditions[i].path[depth].key) {
				below |= 1 << i
			}
		}
		s.ambiguous |= below & seen
		seen |= below
		s.space()
		if s.pos == len(s.b) || s.b[s.pos] != ':' {
			return false
		}
		s.pos++
		if !s.value(below, depth+1) {
			return false
		}
		more, ok := s.separator('}')
		if !more {
			return ok
		}
	}
}

func (s *jsonScanner) array(live uint64, depth int) bool {
	s.pos++
	s.space()
	if s.pos < len(s.b) && s.b[s.pos] == ']' {
		s.pos++
		return true
	}
	for item := 0; ; item++ {
		var below uint64
		for rest := live; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if s.program.conditions[i].path[depth].index == item {
				below |= 1 << i
			}
		}
		if !s.value(below, depth+1) {
			return false
		}
		more, ok := s.separator(']')
		if !more {
			return ok
		}
	}
}

// separator reads what follows a member or an item: more is true after a comma, ok is true after the end.
func (s *jsonScanner) separator(end byte) (more, ok bool) {
	s.space()
	if s.pos == len(s.b) {
		return false, false
	}
	c := s.b[s.pos]
	s.pos++
	return c == ',', c == end
}

// word reads true, false or null.
func (s *jsonScanner) word(w string) bool {
	if len(s.b)-s.pos < len(w) || string(s.b[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// number reads a number.
func (s *jsonScanner) number() bool {
	if s.pos < len(s.b) && s.b[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.b) && s.b[s.pos] == '0' {
		s.pos++
	} else if !s.skipDigits() {
		return false
	}
	if s.pos < len(s.b) && s.b[s.pos] == '.' {
		s.pos++
		if !s.skipDigits() {
			return false
		}
	}
	if s.pos < len(s.b) && s.b[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.b) && (s.b[s.pos] == '+' || s.b[s.pos] == '-') {
			s.pos++
		}
		return s.skipDigits()
	}
	return true
}

// skipDigits reads decimal digits, at least one.
func (s *jsonScanner) skipDigits() bool {
	from := s.pos
	for s.pos < len(s.b) && '0' <= s.b[s.pos] && s.b[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > from
}

// text reads a quoted text and returns where it begins and ends between the quotes, and whether it contains escapes.
func (s *jsonScanner) text() (from, to int, escaped, ok bool) {
	b, i := s.b, s.pos+1
	from = i
	for i < len(b) {
		for i+8 <= len(b) && plain(binary.LittleEndian.Uint64(b[i:])) { // most texts are long, such as audio in base64
			i += 8
		}
		if i == len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			s.pos = i + 1
			return from, i, escaped, true
		case c == '\\':
			escaped = true
			length := escapeLength(b[i:])
			if length == 0 {
				return 0, 0, false, false
			}
			i += length
		case c < 0x20:
			return 0, 0, false, false
		default:
			i++
		}
	}
	return 0, 0, false, false
}

// plain reports whether none of eight bytes is a quotation mark, a backslash or a control character.
func plain(eight uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	// A byte below n, if its highest bit is not set, borrows from its highest bit when n is subtracted. A byte behind one that does may
	// do so by mistake, which costs a second look.
	return ((eight-ones*0x20)&^eight|(quote-ones)&^quote|(backslash-ones)&^backslash)&highs == 0
}

// escapeLength returns the length of the escape at the start of b, or 0 if it is not valid.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hexRune(b) >= 0 {
			return 6
		}
	}
	return 0
}
