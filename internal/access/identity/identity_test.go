package identity

import (
	"strings"
	"testing"
)

func TestCheckText(t *testing.T) {
	for _, text := range []string{"acme", "Müller & Söhne", "user@example.org", strings.Repeat("x", maxText)} {
		if err := CheckText("tenant", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", strings.Repeat("x", maxText+1): "longer than 256 bytes", "a\xff": "not UTF-8", "a\nb": "not printable", "a\u202eb": "not printable", "\x1b[31m": "not printable",
	} {
		if err := CheckText("tenant", text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "the tenant ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
