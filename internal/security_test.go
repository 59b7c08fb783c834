package internal_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testName is a test's name as docs/security.md has it, perhaps with a * for several that begin alike.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)\\*?`")

// TestSecurityNamesTests: each test that docs/security.md names exists, and each row of its tables of what is defended names one.
func TestSecurityNamesTests(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range files(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	found := testName.FindAllStringSubmatch(string(page), -1)
	for _, m := range found {
		end := "("
		if strings.HasSuffix(m[0], "*`") {
			end = ""
		}
		if !strings.Contains(code.String(), "\nfunc "+m[1]+end) {
			t.Errorf("docs/security.md names the test %s, which does not exist", m[1])
		}
	}
	if len(found) < 20 {
		t.Errorf("docs/security.md names only %d tests", len(found))
	}
	tested := false
	for line := range strings.Lines(string(page)) {
		switch {
		case strings.HasPrefix(line, "| ") && strings.HasSuffix(strings.TrimSpace(line), "tested by |"):
			tested = true
		case !strings.HasPrefix(line, "|"):
			tested = false
		case tested && !strings.HasPrefix(line, "| ---") && !testName.MatchString(line[strings.LastIndex(strings.TrimRight(line, " |\n"), "|")+1:]):
			t.Errorf("docs/security.md: %s: the row names no test (%s)", path.Base("security.md"), strings.TrimSpace(line))
		}
	}
}
