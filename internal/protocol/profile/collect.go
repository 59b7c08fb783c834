package profile

import "math/bits"

// pathSet is a set of at most 64 paths into a JSON text, for a [collector]. It is immutable.
type pathSet struct {
	paths  []jsonPath
	all    uint64
	ending [maxPath + 1]uint64 // by depth: the paths that end there

	// If not 0, the path with this bit leads to a list, and the collector reports nothing of its items that do not meet the condition.
	list  uint64
	items *jsonProgram
}

func newPathSet(paths ...jsonPath) *pathSet {
	s := &pathSet{paths: paths}
	for i, path := range paths {
		s.all |= 1 << i
		s.ending[len(path)] |= 1 << i
	}
	return s
}

// hit is a value to which a path leads.
type hit struct {
	path     uint8
	kind     hitKind
	escaped  bool // a text with escapes
	from, to int  // of the value; of a text, what is between its quotes
}

// hitKind is the kind of value.
type hitKind uint8

const (
	hitOther hitKind = iota // true, false, null or an object
	hitText
	hitNumber
	hitList
)

// maxHits is the largest number of values that are collected from one message.
const maxHits = 1 << 16

// collector reads a JSON text once and finds the values to which paths lead, in the order of the text.
type collector struct {
	jsonScanner
	set  *pathSet
	hits []hit
}

// noProgram is for skipping values.
var noProgram jsonProgram

// collect reads a text, and appends to hits the values to which those paths of the set lead whose bits are in live. It returns false if the
// text is not valid JSON or contains too many such values.
func collect(hits []hit, b []byte, set *pathSet, live uint64) ([]hit, bool) {
	c := collector{jsonScanner: jsonScanner{b: b, program: &noProgram}, set: set, hits: hits}
	if !c.value(live, 0) {
		return c.hits, false
	}
	c.space()
	return c.hits, c.pos == len(b) && len(c.hits) <= maxHits
}

// value reads a value. live are the paths that lead to or through it after depth steps.
func (c *collector) value(live uint64, depth int) bool {
	if live == 0 {
		return c.jsonScanner.value(0, depth)
	}
	c.space()
	if c.pos == len(c.b) || depth > maxDepth {
		return false
	}
	here := live & c.set.ending[depth]
	live &^= here
	h := hit{from: c.pos}
	ok := false
	switch first := c.b[c.pos]; first {
	case '{':
		ok = c.object(live, depth)
	case '[':
		h.kind = hitList
		ok = c.array(live, depth, here&c.set.list != 0 && c.set.items != nil)
	case '"':
		h.kind = hitText
		h.from, h.to, h.escaped, ok = c.text()
	default:
		if first == '-' || '0' <= first && first <= '9' {
			h.kind = hitNumber
		}
		ok = c.jsonScanner.value(0, depth)
	}
	if h.kind != hitText {
		h.to = c.pos
	}
	if ok && len(c.hits) <= maxHits {
		for ; here != 0; here &= here - 1 {
			h.path = uint8(bits.TrailingZeros64(here))
			c.hits = append(c.hits, h)
		}
	}
	return ok
}

func (c *collector) object(live uint64, depth int) bool {
	c.pos++
	c.space()
	if c.pos < len(c.b) && c.b[c.pos] == '}' {
		c.pos++
		return true
	}
	for {
		c.space()
		if c.pos == len(c.b) || c.b[c.pos] != '"' {
			return false
		}
		from, to, escaped, ok := c.text()
		if !ok {
			return false
		}
		var below uint64
		for rest := live; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if s := &c.set.paths[i][depth]; s.index != allItems && c.equal(from, to, escaped, s.key) {
				below |= 1 << i
			}
		}
		c.space()
		if c.pos == len(c.b) || c.b[c.pos] != ':' {
			return false
		}
		c.pos++
		if !c.value(below, depth+1) {
			return false
		}
		more, ok := c.separator('}')
		if !more {
			return ok
		}
	}
}

// array reads an array. If filtering, it forgets what it has found in items that do not meet the set's condition.
func (c *collector) array(live uint64, depth int, filtering bool) bool {
	c.pos++
	c.space()
	if c.pos < len(c.b) && c.b[c.pos] == ']' {
		c.pos++
		return true
	}
	for item := 0; ; item++ {
		var below uint64
		for rest := live; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if index := c.set.paths[i][depth].index; index == item || index == allItems {
				below |= 1 << i
			}
		}
		from, found := c.pos, len(c.hits)
		if !c.value(below, depth+1) {
			return false
		}
		if filtering && len(c.hits) > found && !c.set.items.holds(c.b[from:c.pos]) {
			c.hits = c.hits[:found]
		}
		more, ok := c.separator(']')
		if !more {
			return ok
		}
	}
}

// holds reports whether a JSON text meets all conditions of the program.
func (p *jsonProgram) holds(text []byte) bool {
	s := jsonScanner{b: text, program: p}
	return s.scan() && s.matched == p.all && s.ambiguous == 0
}
