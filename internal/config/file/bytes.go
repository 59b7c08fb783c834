package file

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The largest file, and how deep lists and mappings in it may be nested. The parser is recursive, and would end the process
// with much more.
const (
	maxFile  = 32 << 20
	maxDepth = 100
)

// checkBytes refuses what the parser should not see.
func checkBytes(data []byte) error {
	switch {
	case len(data) > maxFile:
		return fmt.Errorf("the file has %d bytes; allowed are %d", len(data), maxFile)
	case !utf8.Valid(data):
		return errors.New("the file is not UTF-8, which YAML must be")
	case bytes.IndexByte(data, 0) >= 0:
		return errors.New("the file has a zero byte, which YAML cannot have")
	}
	depth := 0 // of brackets, those in texts and comments included, which come in pairs as a rule
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxDepth {
			return fmt.Errorf("the file has more than %d brackets inside of one another; allowed are %d", maxDepth, maxDepth)
		}
	}
	for line := range bytes.Lines(data) {
		if indentation(line) > 4*maxDepth {
			return fmt.Errorf("the file has lines that are indented by more than %d; allowed are %d", 4*maxDepth, 4*maxDepth)
		}
	}
	return nil
}

// indentation counts the spaces and indicators of nested lists at the begin of a line.
func indentation(line []byte) int {
	for i, c := range line {
		if !strings.ContainsRune(" -?:\t", rune(c)) {
			return i
		}
	}
	return 0
}
