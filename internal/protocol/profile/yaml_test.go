package profile

import (
	"bytes"
	"testing"
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
