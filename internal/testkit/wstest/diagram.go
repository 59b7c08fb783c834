package wstest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// arrow is a transition of a Mermaid state diagram.
var arrow = regexp.MustCompile(`^\s*(\w+) --> (\w+)`)

// CheckDiagram fails unless the state diagram in docs/architecture.md that names all of the states has exactly the transitions that
// allowed accepts.
func CheckDiagram(t *testing.T, states []string, allowed func(from, to string) bool) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```mermaid\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		drawn := make(map[[2]string]bool)
		var named []string
		for line := range strings.Lines(block) {
			if found := arrow.FindStringSubmatch(line); found != nil {
				drawn[[2]string{found[1], found[2]}] = true
				named = append(named, found[1], found[2])
			}
		}
		if !slices.ContainsFunc(states, func(s string) bool { return !slices.Contains(named, s) }) {
			for _, name := range named {
				if !slices.Contains(states, name) {
					t.Errorf("the diagram has a state %q that the code does not have", name)
				}
			}
			for _, from := range states {
				for _, to := range states {
					if drawn[[2]string{from, to}] != allowed(from, to) {
						t.Errorf("%s --> %s: the code allows it: %v; the diagram draws it: %v", from, to, allowed(from, to), drawn[[2]string{from, to}])
					}
				}
			}
			return
		}
	}
	t.Errorf("no diagram has the states %v", states)
}

// root returns the repository's root: the nearest folder above the test's that has a go.mod.
func root(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	for ; err == nil; folder = filepath.Dir(folder) {
		if _, missing := os.Stat(filepath.Join(folder, "go.mod")); missing == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			t.Fatal("the test does not run in the repository")
		}
	}
	t.Fatal(err)
	return ""
}
