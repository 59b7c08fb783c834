package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// written has the values that the page explains once, below "Values".
var written = strings.NewReplacer(
	"a number for each second, minute or hour, such as 10/s, 100/m or 1000/h; 0 for no limit", "a rate",
	"a size for each second, minute or hour, such as 64KiB/s or 10MiB/m; 0 for no limit", "a rate of bytes",
	"a duration of audio for each day or month (UTC), such as 10h/day or 300h/month; 0 for no limit", "a quota",
	"sizes such as 4096, 512KiB or 16MiB", "a size", "0 to 2147483647", "a number")

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
			fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", f.Name, standard, written.Replace(f.Allowed), f.Help)
		}
		if !strings.Contains(string(data), rows.String()) {
			t.Errorf("docs/reference/configuration.md lacks the fields of a %s as they are:\n%s", kind, &rows)
		}
	}
}
