package profile

import "math/bits"

// pathSet is a set of at most 64 paths into messages in JSON or MessagePack. It is immutable once it is in use.
type pathSet struct {
	paths  []jsonPath
	all    uint64
	ending [maxPath + 1]uint64 // by depth: the paths that end there

	// If not 0, the path with this bit leads to a list, and nothing is found in those of its items that do not meet the conditions.
	list  uint64
	where *jsonProgram
}

func newPathSet(paths ...jsonPath) *pathSet {
	s := &pathSet{paths: paths}
	for i, path := range paths {
		s.all |= 1 << i
		s.ending[len(path)] |= 1 << i
	}
	return s
}

// items returns which of the live paths lead to or through an item of an array after depth steps.
func (s *pathSet) items(live uint64, depth, item int) (below uint64) {
	for ; live != 0; live &= live - 1 {
		i := bits.TrailingZeros64(live)
		if index := s.paths[i][depth].index; index == item || index == allItems {
			below |= 1 << i
		}
	}
	return below
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

// collect reads a text, and appends to hits the values to which those paths of the set lead whose bits are in live, in the order of the text. It
// returns false if the text is not valid JSON or contains too many such values.
func collect(hits []hit, b []byte, set *pathSet, live uint64) ([]hit, bool) {
	s := jsonScanner{b: b, set: set, hits: hits}
	ok := s.whole(live)
	return s.hits, ok && len(s.hits) <= maxHits
}
