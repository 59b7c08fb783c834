package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// TestDocs holds the tables of docs/reference/configuration.md against the fields that people set. Its output is what should stand there.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range config.Kinds() {
		var rows strings.Builder
		for _, f := range config.Fields(kind) {
			if f.Recorded {
				continue
			}
			standard := f.Default
			if standard == "" {
				standard = "empty"
			}
			fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", f.Name, standard, f.Allowed, f.Help)
		}
		if !strings.Contains(string(data), rows.String()) {
			t.Errorf("docs/reference/configuration.md lacks the fields of a %s as they are:\n%s", kind, &rows)
		}
	}
}
