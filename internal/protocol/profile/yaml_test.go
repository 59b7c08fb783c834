package profile

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// Canonical YAML says the same as the profile, and printing it again changes nothing.
func TestCanonicalYAML(t *testing.T) {
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		text := p.YAML()
		again, err := parse("again", text, func(string) bool { return false })
		if err != nil {
			t.Errorf("%s:\n%s\n%v", name, text, err)
			continue
		}
		if !bytes.Equal(again[0].YAML(), text) {
			t.Errorf("%s: printed again:\n%s\nat first:\n%s", name, again[0].YAML(), text)
		}
		if testing.Verbose() {
			t.Logf("%s", text)
		}
	}
}

// Any text is read as it was, as a key and as a value, and is printed without invisible characters.
func TestPrintedText(t *testing.T) {
	check := func(t rapid.TB, text string) {
		printed := encode(inline(key(text, quoteValue(text))))
		var read map[string]string
		if err := yaml.Unmarshal(printed, &read); err != nil {
			t.Fatalf("%q is printed as %s: %v", text, printed, err)
		}
		if value, ok := read[text]; !ok || value != text || len(read) != 1 {
			t.Fatalf("%q is printed as %s and read as %q", text, printed, read)
		}
		line, _ := strings.CutSuffix(string(printed), "\n")
		if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Fatalf("%q is printed as %s", text, printed)
		}
	}
	for _, text := range []string{"", " ", "true", "null", "1.0", "-", "#x", "it's", "a: b", "{a}", "two\nlines\t\x00\x1b\x7f", "left\u202eright\u200b\ufeff\u2028", strings.Repeat("a b ", 100)} {
		check(t, text)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
}
