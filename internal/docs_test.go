package internal_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

var (
	fencedCode = regexp.MustCompile("(?ms)^```.*?^```")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	pageLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// pages returns the text of every Markdown page of the repository by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range files(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// anchors returns the anchors of a page's headings as GitHub makes them: lower case, punctuation left out, "-" for a space.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(fencedCode.ReplaceAllString(page, "")) {
		heading, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !isHeading || !strings.HasPrefix(line, "#") {
			continue
		}
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	}
	return found
}

// TestLinks follows the links between the pages, and to files, folders and headings.
func TestLinks(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		prose := inlineCode.ReplaceAllString(fencedCode.ReplaceAllString(text, ""), "")
		for _, m := range pageLink.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: the link %s names a heading that %s does not have", name, m[1], target)
			}
		}
	}
}

// TestIndex: docs/README.md leads to every page below docs.
func TestIndex(t *testing.T) {
	all := pages(t)
	for name := range all {
		page, isDocs := strings.CutPrefix(name, "docs/")
		if isDocs && page != "README.md" && !strings.Contains(all["docs/README.md"], "("+page+")") {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

var code = regexp.MustCompile(`\b[1-9][0-9]{2,3}\b`)

// TestTroubleshoot: docs/troubleshoot.md explains every close code and HTTP status that docs/reference/client-answers.md names, every
// health of a backend, and every kind of problem that a proxy reports.
func TestTroubleshoot(t *testing.T) {
	all := pages(t)
	_, table, found := strings.Cut(all["docs/reference/client-answers.md"], "| what happened | client gets |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	codes := code.FindAllString(table, -1)
	if !found || len(codes) < 15 {
		t.Fatalf("docs/reference/client-answers.md has no table of what a client gets, or one with few codes: %v", codes)
	}
	words := append(codes, "unreachable", "circuit open", "circuit half-open", "probe fails", "outlier")
	for _, kind := range diagnosis.Kinds() {
		words = append(words, "`"+string(kind)+"`", `<a id="`+string(kind)+`"></a>`) // for links to one kind
	}
	for _, word := range words {
		if !strings.Contains(all["docs/troubleshoot.md"], word) {
			t.Errorf("docs/troubleshoot.md does not explain %s", word)
		}
	}
}
