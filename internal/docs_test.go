package internal_test

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
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

// TestCompatibility: the last version in docs/compatibility.md has the newest schemas, which have as many migrations as their number.
func TestCompatibility(t *testing.T) {
	newest := "|"
	for _, database := range []string{"postgres", "sqlite"} {
		migrations, err := filepath.Glob("config/" + database + "/migrations/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		newest += fmt.Sprintf(" %d |", len(migrations))
	}
	rows := regexp.MustCompile(`(?m)^\| \d+\.\d+\.\d+ (\|.*)$`).FindAllStringSubmatch(pages(t)["docs/compatibility.md"], -1)
	if len(rows) == 0 || !strings.HasPrefix(rows[len(rows)-1][1], newest) {
		t.Errorf("docs/compatibility.md: the last version should have the schemas %s", newest)
	}
}

var (
	statusName    = regexp.MustCompile(`http\.Status([A-Z]\w+)`)
	closeConstant = regexp.MustCompile(`\b([A-Z]\w+) +CloseCode = (\d+)`)
)

// answers returns every HTTP status and close code that the proxy itself gives a client.
func answers(t *testing.T) []string {
	t.Helper()
	source := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	named := map[string]bool{}
	for _, name := range files(t) {
		refuses := strings.HasPrefix(name, "internal/session/") || strings.HasPrefix(name, "internal/wire/handshake/")
		if !refuses || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || path.Base(name) == "health.go" {
			continue
		}
		for _, m := range statusName.FindAllStringSubmatch(source(name), -1) {
			named[m[1]] = true
		}
	}
	var codes []string
	for status := 400; status < 600; status++ {
		if named[strings.ReplaceAll(http.StatusText(status), " ", "")] {
			codes = append(codes, strconv.Itoa(status))
		}
	}
	for _, m := range closeConstant.FindAllStringSubmatch(source("internal/wire/frame/close.go"), -1) {
		if m[1] != "UnsupportedData" && m[1] != "BadGateway" && m[1] != "TLSHandshakeFail" { // which it only passes on
			codes = append(codes, m[2])
		}
	}
	return codes
}

// TestTroubleshoot: docs/troubleshoot.md has a row for every close code and HTTP status that the proxy gives a client, and explains every
// health of a backend, and every kind of problem that a proxy reports.
func TestTroubleshoot(t *testing.T) {
	all := pages(t)
	codes := answers(t)
	if len(codes) < 18 {
		t.Fatalf("the code gives clients few statuses and close codes: %v", codes)
	}
	for _, code := range codes {
		if !regexp.MustCompile(`(?m)^\|[0-9, ]* ` + code + `[, ]`).MatchString(all["docs/troubleshoot.md"]) {
			t.Errorf("docs/troubleshoot.md has no row for %s", code)
		}
	}
	words := []string{"unreachable", "circuit open", "circuit half-open", "probe fails", "outlier"}
	for _, kind := range diagnosis.Kinds() {
		words = append(words, "`"+string(kind)+"`", `<a id="`+string(kind)+`"></a>`) // for links to one kind
	}
	for _, word := range words {
		if !strings.Contains(all["docs/troubleshoot.md"], word) {
			t.Errorf("docs/troubleshoot.md does not explain %s", word)
		}
	}
}
