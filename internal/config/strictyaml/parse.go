// Package strictyaml reads YAML that people write, without what makes it hard to read or dear: one document, at most of a given
// size; no anchors, aliases and tags; no key twice. Everything that is wrong is told with its line and column.
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

// Parse returns the one document's root, nil if there is nothing in it; or where the file is no YAML (:line, or nothing), and
// why. most is the size in bytes of the largest file. The parser limits how deep things are nested, and aliases are not
// followed.
func Parse(data []byte, most int) (root *yaml.Node, where string, err error) {
	switch {
	case len(data) > most:
		return nil, "", fmt.Errorf("the file has %d bytes: use at most %d", len(data), most)
	case !utf8.Valid(data):
		return nil, fmt.Sprintf(":%d", 1+bytes.Count(data[:firstInvalid(data)], []byte("\n"))), errors.New("invalid UTF-8: YAML must be UTF-8")
	}
	defer func() { // a defect of the library must not end the proxy
		if failure := recover(); failure != nil {
			root, where, err = nil, "", fmt.Errorf("cannot parse this YAML: %v", failure)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, "", nil
	} else if err != nil {
		return noYAML(data, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Sprintf(":%d", second.Line), errors.New("a second YAML document: use only one")
	} else if !errors.Is(err, io.EOF) {
		return noYAML(data, err)
	}
	if len(first.Content) == 0 {
		return nil, "", nil
	}
	return first.Content[0], "", nil
}

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

func noYAML(data []byte, err error) (*yaml.Node, string, error) {
	where, text := "", err.Error()
	if match := withLine.FindStringSubmatch(text); match != nil {
		if match[1] != "" {
			where = ":" + match[1]
		}
		text = match[2]
	}
	if line := tabLine(data, strings.TrimPrefix(where, ":"), text); line > 0 {
		return nil, fmt.Sprintf(":%d", line), errors.New("invalid YAML: a tab: indent with spaces")
	}
	return nil, where, fmt.Errorf("invalid YAML: %s", text)
}

// tabbed is a line with a tab where only spaces may stand.
var tabbed = regexp.MustCompile(`^[ -]*\t`)

// tabLine returns the line whose tab the library complains about in other words, near the one that it names; 0 if it does not.
func tabLine(data []byte, named, text string) int {
	first := 1 // which the library leaves out
	if n, err := strconv.Atoi(named); err == nil {
		first = n
	}
	last := first
	switch {
	case strings.Contains(text, "a tab character"): // it may name the line where the block begins
		last = math.MaxInt
	case !strings.Contains(text, "cannot start any token"):
		return 0
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if n := i + 1; n >= first && n <= last && tabbed.Match(line) {
			return n
		}
	}
	return 0
}
