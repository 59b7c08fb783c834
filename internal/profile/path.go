package profile

import (
	"fmt"
	"strconv"
	"strings"
)

// segment is one step of a path into JSON: the key of an object's member, or an item of an array.
type segment struct {
	key   string
	index int // if the key is a number, it also names the array's item with this index; otherwise -1
}

// jsonPath leads to a value in a JSON text: a.b.c, items.0.name or items[0].name.
type jsonPath []segment

// maxPath is the largest number of steps in a path.
const maxPath = 16

// parsePath reads a path. A backslash before a dot, a bracket or a backslash makes it part of a key.
func parsePath(text string) (jsonPath, error) {
	var path jsonPath
	var key strings.Builder
	add := func() { path = append(path, newSegment(key.String())); key.Reset() }
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
			if i == len(text) || !strings.ContainsRune(`.[]\`, rune(text[i])) {
				return nil, fmt.Errorf(`invalid path %q: a backslash must be followed by a dot, a bracket or a backslash`, text)
			}
			key.WriteByte(text[i])
		case c == '.':
			if key.Len() == 0 && (i == 0 || text[i-1] != ']') {
				return nil, fmt.Errorf("invalid path %q: a key is missing before a dot", text)
			}
			if key.Len() > 0 {
				add()
			}
		case c == '[':
			if key.Len() > 0 {
				add()
			}
			end := strings.IndexByte(text[i:], ']')
			if end < 0 || !isIndex(text[i+1:i+end]) {
				return nil, fmt.Errorf("invalid path %q: brackets must contain the number of an item, from 0", text)
			}
			path = append(path, newSegment(text[i+1:i+end]))
			i += end
			if i+1 < len(text) && text[i+1] != '.' && text[i+1] != '[' {
				return nil, fmt.Errorf("invalid path %q: brackets must be followed by a dot or a bracket", text)
			}
		default:
			key.WriteByte(c)
		}
	}
	if key.Len() > 0 {
		add()
	} else if len(path) == 0 || text[len(text)-1] != ']' {
		return nil, fmt.Errorf("invalid path %q: a key is missing at the end", text)
	}
	if len(path) > maxPath {
		return nil, errTooLong(text)
	}
	return path, nil
}

func errTooLong(text string) error {
	return fmt.Errorf("invalid path %q: use at most %d steps", text, maxPath)
}

// isIndex reports whether a text is an index into an array: at most six digits, without leading zeros.
func isIndex(s string) bool {
	if s == "" || len(s) > 6 || len(s) > 1 && s[0] == '0' {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

func newSegment(key string) segment {
	s := segment{key: key, index: -1}
	if isIndex(key) {
		s.index, _ = strconv.Atoi(key)
	}
	return s
}

// String returns the path in the form that parsePath reads.
func (p jsonPath) String() string {
	keys := make([]string, len(p))
	for i, s := range p {
		keys[i] = strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`, "]", `\]`).Replace(s.key)
	}
	return strings.Join(keys, ".")
}

// leadsThrough reports whether other is shorter than the path and the path begins with it.
func (p jsonPath) leadsThrough(other jsonPath) bool {
	if len(other) >= len(p) {
		return false
	}
	for i := range other {
		if p[i].key != other[i].key {
			return false
		}
	}
	return true
}
