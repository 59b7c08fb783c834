package internal_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// namedPath is a path of the repository in a code span of a page.
	namedPath = regexp.MustCompile("`((?:internal|cmd|docs|deploy|bench|conformance|examples|tools)/[A-Za-z0-9_./{},-]*[A-Za-z0-9}])(?:/|/\\.\\.\\.)?`")
	// namedPage is a page in a comment or message of the code.
	namedPage = regexp.MustCompile(`\b(docs/[A-Za-z0-9_/-]+\.md)\b`)
	// comment is one of the code, and namedFile is a file in it, in the folder of the code if the path has no other.
	comment   = regexp.MustCompile(`(?m)^\s*//.*$`)
	namedFile = regexp.MustCompile(`\b([A-Za-z0-9_/]+\.go)\b`)
)

// TestNamedPaths: the files and folders that pages name in code spans exist, and so do the pages that the code names, and the files in its comments.
func TestNamedPaths(t *testing.T) {
	missing := func(in, name string) {
		if strings.Contains(name, "N_name") || strings.Contains(name, "NAME") { // an example
			return
		}
		for _, one := range alternatives(name) {
			if found, err := filepath.Glob(filepath.Join("..", one)); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", in, one)
			}
		}
	}
	for name, text := range pages(t) {
		for _, m := range namedPath.FindAllStringSubmatch(text, -1) {
			missing(name, m[1])
		}
	}
	for _, name := range files(t) {
		if ext := path.Ext(name); ext == ".md" || ext == ".svg" || ext == ".png" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedPage.FindAllStringSubmatch(string(text), -1) {
			missing(name, m[1])
		}
		if path.Ext(name) != ".go" {
			continue
		}
		for _, line := range comment.FindAll(text, -1) {
			for _, m := range namedFile.FindAllString(string(line), -1) {
				beside := path.Join(path.Dir(name), m)
				if _, err := os.Stat(filepath.Join("..", beside)); err != nil && m != "doc.go" {
					missing(name, m)
				}
			}
		}
	}
}

// makeSpan is a call of make in a code span or at the beginning of an indented line.
var makeSpan = regexp.MustCompile("(?m)(?:`|^ {4}(?:\\$ )?)make ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")

// TestNamedTargets: the Makefile has the targets that pages name.
func TestNamedTargets(t *testing.T) {
	targets := makeTargets(t)
	for name, text := range pages(t) {
		for _, m := range makeSpan.FindAllStringSubmatch(text, -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if !targets[target] {
					t.Errorf("%s names make %s, which the Makefile does not have", name, target)
				}
			}
		}
	}
}

// alternatives returns the paths that a path with {a,b} in it stands for.
func alternatives(name string) (all []string) {
	before, rest, found := strings.Cut(name, "{")
	if !found {
		return []string{name}
	}
	within, after, _ := strings.Cut(rest, "}")
	for one := range strings.SplitSeq(within, ",") {
		all = append(all, before+one+after)
	}
	return all
}
