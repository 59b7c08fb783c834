// Package strictyaml reads YAML that people write, without what makes it hard to read or dear: one document, at most of a given
// size; no anchors, aliases and tags; no key twice. Every problem is reported with its line and column. The configuration, the
// settings of the process and profiles are read by it.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// SyntaxError says why a file is no YAML that is read here.
type SyntaxError struct {
	Line int // 0 for all of the file
	Text string
}

// Error returns the reason, without the place.
func (e *SyntaxError) Error() string { return e.Text }

// Place returns the words for the place in the file of that name.
func (e *SyntaxError) Place(file string) string {
	if e.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, e.Line)
}

// Parse returns the one document's root; nil if there is nothing in it. most is the size in bytes of the largest file. The parser
// limits how deep things are nested, and aliases are not followed.
func Parse(data []byte, most int) (root *Node, err *SyntaxError) {
	switch {
	case len(data) > most:
		return nil, &SyntaxError{0, fmt.Sprintf("the file has %d bytes: use at most %d", len(data), most)}
	case !utf8.Valid(data):
		return nil, &SyntaxError{1 + bytes.Count(data[:firstInvalid(data)], []byte("\n")), "invalid UTF-8: YAML must be UTF-8"}
	}
	defer func() { // a defect of the library must not end the proxy
		if failure := recover(); failure != nil {
			root, err = nil, &SyntaxError{0, fmt.Sprintf("cannot parse this YAML: %v", failure)}
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(data, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &SyntaxError{second.Line, "a second YAML document begins here: use only one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(data, err)
	}
	if len(first.Content) == 0 || KindOf(first.Content[0]) == Nothing {
		return nil, nil
	}
	return first.Content[0], nil
}

// breaks are the characters that end a line of YAML for the library, which counts lines by them. A "\r\n" is one.
const breaks = "\n\r\u0085\u2028\u2029"

// Lines returns the lines of a file as [Node.Line] counts them, each with what ends it.
func Lines(text string) (lines []string) {
	for text != "" {
		end := len(text)
		if at := strings.IndexAny(text, breaks); at >= 0 {
			_, n := utf8.DecodeRuneInString(text[at:])
			if end = at + n; strings.HasPrefix(text[at:], "\r\n") {
				end++
			}
		}
		lines, text = append(lines, text[:end]), text[end:]
	}
	return lines
}

// Content returns what a line has, without what ends it.
func Content(line string) string { return strings.TrimRight(line, breaks) }

// firstInvalid returns where the first byte stands that is not UTF-8.
func firstInvalid(data []byte) (at int) {
	for at < len(data) {
		c, n := utf8.DecodeRune(data[at:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// withLine is an error of the library, most of which have a line.
var withLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func syntaxError(data []byte, err error) *SyntaxError {
	e := &SyntaxError{0, err.Error()}
	if match := withLine.FindStringSubmatch(e.Text); match != nil {
		e.Line, _ = strconv.Atoi(match[1]) // 0 for none
		e.Text = match[2]
	}
	if line := tabLine(data, e); line > 0 {
		return &SyntaxError{line, "a tab: indent YAML with spaces"}
	}
	e.Text = "invalid YAML: " + e.Text
	return e
}

// tabbed is a line with a tab where only spaces may stand.
var tabbed = regexp.MustCompile(`^[ -]*\t`)

// tabLine returns the line whose tab the library complains about in other words, near the one that it names; 0 if it does not.
func tabLine(data []byte, e *SyntaxError) int {
	first := max(1, e.Line) // which the library leaves out
	last := first
	switch {
	case strings.Contains(e.Text, "a tab character"): // it may name the line where the block begins
		last = math.MaxInt
	case !strings.Contains(e.Text, "cannot start any token"):
		return 0
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if n := i + 1; n >= first && n <= last && tabbed.Match(line) {
			return n
		}
	}
	return 0
}
