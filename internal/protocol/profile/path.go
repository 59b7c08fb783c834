package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// segment is one step of a path into JSON: the key of an object's member, or an item of an array.
type segment struct {
	key   string
	index int // if the key is a number, it also names the array's item with this index; otherwise -1, or allItems
}

// allItems is the index of a step to each item of an array. Its key is empty. Only paths that parseItemsPath has read contain it.
const allItems = -2

// jsonPath leads to a value in a JSON text: a.b.c, items.0.name or items[0].name.
type jsonPath []segment

// maxPath is the largest number of steps in a path.
const maxPath = 16

// parsePath reads a path. A backslash before a dot, a bracket or a backslash makes it part of a key.
func parsePath(text string) (jsonPath, error) { return readPath(text, false) }

// parseItemsPath reads a path that may lead to several values: [] stands for all items of an array.
func parseItemsPath(text string) (jsonPath, error) { return readPath(text, true) }

func readPath(text string, items bool) (jsonPath, error) {
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
			switch all := items && end == 1; {
			case all:
				path = append(path, segment{index: allItems})
			case end < 0 || !isIndex(text[i+1:i+end]):
				or := ""
				if items {
					or = ", or nothing, for all items"
				}
				return nil, fmt.Errorf("invalid path %q: brackets must contain the number of an item, from 0%s", text, or)
			default:
				path = append(path, newSegment(text[i+1:i+end]))
			}
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

// String returns the path in the form that parsePath or parseItemsPath reads.
func (p jsonPath) String() string {
	var text strings.Builder
	for i, s := range p {
		if s.index == allItems {
			text.WriteString("[]")
			continue
		}
		if i > 0 {
			text.WriteByte('.')
		}
		text.WriteString(escapePath.Replace(s.key))
	}
	return text.String()
}

var escapePath = strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`, "]", `\]`)

// hasItems reports whether the path leads through all items of an array.
func (p jsonPath) hasItems() bool {
	return slices.ContainsFunc(p, func(s segment) bool { return s.index == allItems })
}

// leadsThrough reports whether other is shorter than the path and the path begins with it.
func (p jsonPath) leadsThrough(other jsonPath) bool {
	return len(other) < len(p) && slices.Equal(p[:len(other)], other)
}
