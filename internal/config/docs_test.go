package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// TestDocs holds the tables of docs/reference/configuration.md against the fields that people set. Its output is what should stand there.
// Tenants and keys share a table for the fields that they have in common.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page, rows := string(data), make(map[string]bool)
	for _, kind := range config.Kinds() {
		for _, f := range config.Fields(kind) {
			if f.Recorded {
				continue
			}
			row := fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, configtest.Documented(f.Default, f.Allowed), configtest.Meaning(f.Help))
			if rows[row] = true; !strings.Contains(page, "\n"+row) {
				t.Errorf("docs/reference/configuration.md lacks this field of a %s:\n%s", kind, row)
			}
		}
	}
	if found := regexp.MustCompile("(?m)^\\| `[a-z-]+` \\|.*\\|.*\\|$").FindAllString(page, -1); len(found) != len(rows) {
		t.Errorf("docs/reference/configuration.md has %d rows for %d fields", len(found), len(rows))
	}
}
