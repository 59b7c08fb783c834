package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sequential is the Makefile's list of packages that are tested without the race detector.
var sequential = regexp.MustCompile(`(?m)^SEQUENTIAL = \$\(addprefix ./internal/, (.*)\)$`)

// The packages that are tested without the race detector start no goroutines, and neither do their tests.
func TestSequential(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := sequential.FindSubmatch(makefile)
	if list == nil {
		t.Fatal("the Makefile has no list SEQUENTIAL")
	}
	for _, name := range strings.Fields(string(list[1])) {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
		for _, file := range files {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if startsGoroutine(n) {
					t.Errorf("%s may start a goroutine: take %s from SEQUENTIAL in the Makefile", set.Position(n.Pos()), name)
				}
				return true
			})
		}
	}
}

// startsGoroutine reports whether n is a go statement, or calls a method that starts a goroutine.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains([]string{"Go", "AfterFunc", "Parallel", "RunParallel"}, called.Sel.Name)
	}
	return false
}
