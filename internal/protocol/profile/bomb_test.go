package profile

import (
	"strings"
	"testing"
)

// Texts that nest far deeper than a profile are refused, and what is only long or a little deep is not.
func TestBombs(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":   strings.Repeat("[", 100_000),
		"braces":     strings.Repeat("{a: ", 60) + strings.Repeat("}", 60),
		"lists":      "profiles:\n" + strings.Repeat("- ", 50_000),
		"keys":       strings.Repeat("? ", 50_000),
		"big":        "profiles: {}\n#" + strings.Repeat("x", maxFile),
		"long lines": "profiles: {a: " + strings.Repeat("{b: [", 26),
	} {
		if _, err := Parse("bomb.yaml", []byte(text)); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	fine := "profiles:\n  a:\n    from: echo\n    summary: '" + strings.Repeat("[", 40) + strings.Repeat("-", 1000) + "'\n"
	if _, err := Parse("fine.yaml", []byte(fine)); err != nil {
		t.Error(err)
	}
}
