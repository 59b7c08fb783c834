package internal_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDependenciesAreListed: docs/reference/dependencies.md has each module that the program is made of on this system, in its version.
// (`make lint` compares the whole page, for all systems, and the licences.)
func TestDependenciesAreListed(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if .Version}}| [{{.Path}}](https://pkg.go.dev/{{.Path}}@{{.Version}}) | {{.Version}} |{{end}}{{end}}`, "./cmd/wsbouncer")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := make(map[string]bool)
	for row := range strings.Lines(string(out)) {
		if row = strings.TrimSpace(row); row != "" && !seen[row] && !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/dependencies.md lacks %s: run `make licences`", row)
		}
		seen[row] = true
	}
	if len(seen) < 10 {
		t.Errorf("go list knows only %d modules", len(seen))
	}
}
