package internal_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDependenciesAreListed: docs/reference/dependencies.md has each module that the program is made of on this system. (`make lint` compares
// the whole page, for all systems, and the licences.)
func TestDependenciesAreListed(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Version}}{{.Path}}{{end}}{{end}}", "./cmd/wsbouncer")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := make(map[string]bool)
	for module := range strings.FieldsSeq(string(out)) {
		if !seen[module] && !strings.Contains(string(page), "\n    "+module+"\n") {
			t.Errorf("docs/reference/dependencies.md lacks %s: run `make licences`", module)
		}
		seen[module] = true
	}
	if len(seen) < 10 {
		t.Errorf("go list knows only %d modules", len(seen))
	}
}
