package profile

import (
	"encoding/binary"
	"math/bits"
)

// jsonScanner reads a JSON text (RFC 8259) once, from the first byte to the last. It finds the values to which paths lead, and either judges
// them by the conditions of a [jsonProgram], which allocates nothing, or collects them.
type jsonScanner struct {
	b   []byte
	pos int
	set *pathSet // not needed to skip values

	program *jsonProgram    // nil to collect
	digits  [tokenSize]byte // of the token, for conditions that contain it

	matched   uint64 // the conditions that are true
	ambiguous uint64 // the conditions whose path leads to two values, because of a duplicate key: it is not known whether they are true

	// Where the text that the program captures begins and ends, between its quotes; -1 for none.
	captureFrom, captureTo int
	captureEscaped         bool // it contains escapes

	hits []hit // in the order of the text
}

// maxDepth is the deepest nesting of a JSON text. Deeper ones count as invalid.
const maxDepth = 100

// scan reports whether the text is valid JSON. If it is not, matched, ambiguous and the captured text mean nothing.
func (s *jsonScanner) scan() bool {
	s.captureFrom, s.set = -1, s.program.pathSet
	return s.whole(s.set.all)
}

// whole reads the whole text.
func (s *jsonScanner) whole(live uint64) bool {
	if !s.value(live, 0) {
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

// value reads a value. live are the paths that lead to or through it after depth steps.
func (s *jsonScanner) value(live uint64, depth int) bool {
	s.space()
	if s.pos == len(s.b) || depth > maxDepth {
		return false
	}
	var here uint64 // the paths that lead to this very value
	if live != 0 {
		here = live & s.set.ending[depth]
		live &^= here
	}
	kind, from, to, escaped, ok := hitOther, s.pos, 0, false, false
	switch s.b[s.pos] {
	case '{':
		ok = s.object(live, depth)
	case '[':
		kind, ok = hitList, s.array(live, depth, here)
	case '"':
		kind = hitText
		from, to, escaped, ok = s.text()
	case 't':
		ok = s.word("true")
	case 'f':
		ok = s.word("false")
	case 'n':
		ok = s.word("null")
	default:
		kind, ok = hitNumber, s.number()
	}
	if here != 0 && ok {
		if kind != hitText {
			to = s.pos
		}
		s.report(here, hit{0, kind, escaped, from, to})
	}
	return ok
}

// report judges or collects a value to which the paths in here lead.
func (s *jsonScanner) report(here uint64, h hit) {
	for ; here != 0; here &= here - 1 {
		h.path = uint8(bits.TrailingZeros64(here))
		switch {
		case s.program != nil:
			if s.holds(&s.program.conditions[h.path], h) {
				s.matched |= 1 << h.path
			}
		case len(s.hits) <= maxHits:
			s.hits = append(s.hits, h)
		}
	}
}

// enter begins to read an object or an array. It reports whether it is empty.
func (s *jsonScanner) enter(end byte) (empty bool) {
	s.pos++
	s.space()
	if s.pos == len(s.b) || s.b[s.pos] != end {
		return false
	}
	s.pos++
	return true
}

// member reads the key of an object's next member, and the colon.
func (s *jsonScanner) member() (from, to int, escaped, ok bool) {
	s.space()
	if s.pos == len(s.b) || s.b[s.pos] != '"' {
		return 0, 0, false, false
	}
	from, to, escaped, ok = s.text()
	s.space()
	if !ok || s.pos == len(s.b) || s.b[s.pos] != ':' {
		return 0, 0, false, false
	}
	s.pos++
	return from, to, escaped, true
}

func (s *jsonScanner) object(live uint64, depth int) bool {
	if s.enter('}') {
		return true
	}
	var seen uint64
	for {
		from, to, escaped, ok := s.member()
		if !ok {
			return false
		}
		var below uint64
		for rest := live; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if step := &s.set.paths[i][depth]; step.index != allItems && s.equal(from, to, escaped, step.key) {
				below |= 1 << i
			}
		}
		s.ambiguous |= below & seen
		seen |= below
		if !s.value(below, depth+1) {
			return false
		}
		more, ok := s.separator('}')
		if !more {
			return ok
		}
	}
}

// array reads an array, to which the paths in here lead. It forgets what it has found in items that do not meet the set's condition.
func (s *jsonScanner) array(live uint64, depth int, here uint64) bool {
	if s.enter(']') {
		return true
	}
	for item := 0; ; item++ {
		var below uint64
		if live != 0 {
			below = s.set.items(live, depth, item)
		}
		from, found := s.pos, len(s.hits)
		if !s.value(below, depth+1) {
			return false
		}
		if len(s.hits) > found && here&s.set.list != 0 && !s.set.where.holds(s.b[from:s.pos]) {
			s.hits = s.hits[:found]
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
		for i+8 <= len(b) && specials(binary.LittleEndian.Uint64(b[i:])) == 0 { // most texts are long, such as audio in base64
			i += 8
		}
		if i+8 <= len(b) {
			i += bits.TrailingZeros64(specials(binary.LittleEndian.Uint64(b[i:]))) / 8
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

// specials marks the quotation marks, backslashes and control characters of eight bytes by their highest bit. Only the first mark is sure.
func specials(eight uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^ones*'"', eight^ones*'\\'
	// A byte below n, if its highest bit is not set, borrows from its highest bit when n is subtracted. A byte behind one that does may
	// do so by mistake.
	return ((eight-ones*0x20)&^eight | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
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
