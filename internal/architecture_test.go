package internal_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wsbouncer/wsbouncer/"

// storeys says which storeys the packages of each may import besides their own, tests aside. Imports go down: no storey may import one that
// stands above it. Each storey's doc.go says what it is for.
var storeys = map[string][]string{
	"cli":     {"lab", "app", "fleet", "config", "operate", "access", "servers", "protocol", "wire", "ground"},
	"proof":   {"lab", "app", "fleet", "config", "operate", "protocol", "wire", "ground", "testkit"},
	"lab":     {"app", "operate", "protocol", "wire", "ground"},
	"app":     {"fleet", "config", "operate", "session", "access", "servers", "protocol", "wire", "ground"},
	"fleet":   {"operate", "ground"},
	"config":  {"operate", "access", "protocol", "wire", "ground"},
	"operate": {"session", "access", "servers", "wire", "ground"},
	// The data plane: it never sees the admin API, a database or metrics.
	"session":  {"access", "servers", "protocol", "wire", "ground"},
	"access":   {"ground"},
	"servers":  {"protocol", "wire", "ground"},
	"protocol": {"wire", "ground"},
	"wire":     {"ground"},
	"ground":   {},
	"testkit":  {"fleet", "config", "session", "access", "servers", "protocol", "wire", "ground"},
}

// alone are the packages that import nothing of ours, so that they can be understood and tested by themselves, or taken elsewhere.
var alone = []string{
	"fleet", "fleet/takeover", "operate/api", "operate/dashboard", "servers/pool", "wire/frame", "wire/origin", "wire/tlsrecord", "ground/meter",
	"app/supervisor",
}

// alternativePackages are sets of packages that do not import one another: each is one of several answers to the same question, or a third
// package joins them.
var alternativePackages = [][]string{
	{"config/file", "config/memory", "config/postgres", "config/remote", "config/sqlite"},
	{"fleet/postgres", "fleet/sqlite"},
	{"session/admission", "session/relay"},
	{"session/admission", "session/jobs"},
	{"access/auth/apikey", "access/auth/certificate", "access/auth/external", "access/auth/token"},
}

// storeyOf returns the storey of a package, by its path below internal.
func storeyOf(name string) string {
	storey, _, _ := strings.Cut(name, "/")
	return storey
}

// TestImports holds every package against the storeys, and against the stricter rules for some of them.
func TestImports(t *testing.T) {
	packages := map[string]bool{}
	for _, file := range files(t) {
		name, ours := strings.CutPrefix(file, "internal/")
		here := path.Dir(name)
		if !ours || here == "." || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		packages[here] = true
		allowed, ok := storeys[storeyOf(here)]
		if !ok {
			t.Errorf("%s: %s is not a storey", file, storeyOf(here))
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"internal/")
			if !ours {
				continue
			}
			if to := storeyOf(imported); to != storeyOf(here) && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may import %s only", file, imported, storeyOf(here), strings.Join(allowed, ", "))
			}
			if slices.Contains(alone, here) {
				t.Errorf("%s imports %s: %s imports nothing of ours", file, imported, here)
			}
			for _, set := range alternativePackages {
				if slices.Contains(set, here) && slices.Contains(set, imported) {
					t.Errorf("%s imports %s: they share a third package if anything", file, imported)
				}
			}
		}
	}
	for _, name := range slices.Concat(append(alternativePackages, alone)...) {
		if !packages[name] {
			t.Errorf("there is a rule for %s, which is not a package", name)
		}
	}
}

// TestStoreys: imports go down, and each storey says in the first sentence of its doc.go what it is for.
func TestStoreys(t *testing.T) {
	height := map[string]int{}
	var climb func(storey string, above []string) int
	climb = func(storey string, above []string) int {
		if slices.Contains(above, storey) {
			t.Fatalf("storeys in a circle: %s", strings.Join(append(above, storey), " > "))
		}
		if _, known := height[storey]; !known {
			highest := 0
			for _, below := range storeys[storey] {
				highest = max(highest, climb(below, append(above, storey))+1)
			}
			height[storey] = highest
		}
		return height[storey]
	}
	for storey := range storeys {
		climb(storey, nil)
		doc, err := os.ReadFile(storey + "/doc.go")
		if err != nil {
			t.Errorf("each storey has a doc.go: %v", err)
		} else if text := string(doc); !strings.HasPrefix(text, "// Package "+storey+" is the ") || !strings.Contains(text, "import") {
			t.Errorf("%s/doc.go must begin with \"// Package %s is the ...\", and say who imports it", storey, storey)
		}
	}
}

// TestNames keeps out the package names that say nothing.
func TestNames(t *testing.T) {
	for _, file := range files(t) {
		name := path.Dir(file)
		for _, bad := range []string{"util", "utils", "common", "helpers", "misc", "base"} {
			if strings.HasSuffix(file, ".go") && path.Base(name) == bad {
				t.Errorf("package %s is named after nothing", name)
			}
		}
	}
}
