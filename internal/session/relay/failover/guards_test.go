package failover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guarded are the files whose guards the model test has to find.
var guarded = []string{"machine.go", "pendingmove.go"}

// needless are guards that no test can find, and why.
var needless = map[string]string{
	"machine.go: !slices.Contains(transitions[m.state], next) is false":         "it finds other bugs, and there is none",
	"pendingmove.go: !slices.Contains(moveTransitions[p.State], next) is false": "it finds other bugs, and there is none",
}

// guard is a condition, or a step, that is taken out.
type guard struct {
	file     string
	from, to int // in the file, in bytes
	line     int
	text     string
	instead  instead
}

// instead is what there is instead of a guard.
type instead uint8

const (
	nothing  instead = iota // a step is left out
	holds                   // a condition is taken to hold
	holdsNot                // or not to hold
)

func (g guard) String() string {
	return g.file + ": " + g.text + [...]string{" is left out", " is true", " is false"}[g.instead]
}

// opening and closing are what stands around the guard with that number, so that it can be left out.
func (g guard) opening(n int) string {
	return fmt.Sprintf([...]string{"if !withoutGuard(%d) { ", "(withoutGuard(%d) || (", "(!withoutGuard(%d) && ("}[g.instead], n)
}

func (g guard) closing() string { return [...]string{" }", "))", "))"}[g.instead] }

// TestGuards takes out each guard of the machine, one at a time, and expects the tests of the package to fail: each condition, and each part of
// one, is taken to hold, or not to hold, and each step is left out. All are compiled into one test binary, which leaves out the one that the environment names; the product
// has no such switch.
func TestGuards(t *testing.T) {
	if testing.Short() || os.Getenv("GUARD") != "" {
		t.Skip("it compiles the package")
	}
	folder := t.TempDir()
	replace := make(map[string]string)
	var guards []guard
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, name)] = path
	}
	for _, file := range guarded {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := guardsOf(t, file, source)
		write(file, switchable(string(source), found, len(guards)))
		guards = append(guards, found...)
	}
	write("without.go", "package failover\n\nvar withoutGuard = func(int) bool { return false }\n")
	write("without_test.go", `package failover

import (
	"os"
	"strconv"
)

func init() {
	without, _ := strconv.Atoi(os.Getenv("GUARD"))
	withoutGuard = func(n int) bool { return n == without }
}
`)
	overlay, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(folder, "guards.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(folder, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(n int) ([]byte, error) {
		c := exec.CommandContext(t.Context(), binary, "-test.run", "^TestMachine$", "-rapid.checks=5000", "-rapid.seed=1", "-test.timeout=1m", "-rapid.shrinktime=0s", "-rapid.nofailfile")
		c.Env = append(os.Environ(), fmt.Sprint("GUARD=", n))
		return c.CombinedOutput()
	}
	if out, err := run(-1); err != nil {
		t.Fatalf("with all guards: %v: %s", err, out)
	}
	missed := 0
	for i, g := range guards {
		out, err := run(i + 1)
		switch why, known := needless[g.String()]; {
		case err == nil && !known:
			missed++
			t.Errorf("line %d: %v, and no test fails", g.line, g)
		case err != nil && known:
			t.Errorf("%v is found after all, although %s: %s", g, why, out)
		}
	}
	t.Logf("%d guards, %d missed, %d needless", len(guards), missed, len(needless))
}

// guardsOf returns the guards of a file: its steps, and the parts of its conditions that are joined by && or ||.
func guardsOf(t *testing.T, file string, source []byte) (guards []guard) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Node, instead instead) {
		from, to := set.Position(e.Pos()), set.Position(e.End())
		guards = append(guards, guard{file, from.Offset, to.Offset, from.Line, string(source[from.Offset:to.Offset]), instead})
	}
	var parts func(e ast.Expr, alone bool)
	parts = func(e ast.Expr, alone bool) {
		switch x := e.(type) {
		case *ast.ParenExpr:
			parts(x.X, alone)
			return
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				for _, part := range []ast.Expr{x.X, x.Y} {
					if b, ok := part.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
						parts(part, false)
					} else {
						add(part, map[token.Token]instead{token.LAND: holds, token.LOR: holdsNot}[x.Op])
					}
				}
				return
			}
		}
		if alone {
			add(e, holds)
			add(e, holdsNot)
		}
	}
	steps := func(list []ast.Stmt) {
		for _, s := range list {
			switch x := s.(type) {
			case *ast.AssignStmt:
				if x.Tok != token.DEFINE {
					add(s, nothing)
				}
			case *ast.IncDecStmt:
				add(s, nothing)
			case *ast.ExprStmt:
				if call, ok := x.X.(*ast.CallExpr); ok && string(source[set.Position(call.Fun.Pos()).Offset:set.Position(call.Fun.End()).Offset]) != "panic" {
					add(s, nothing)
				}
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BlockStmt:
			steps(x.List)
		case *ast.CaseClause:
			steps(x.Body)
		case *ast.IfStmt:
			parts(x.Cond, true)
		case *ast.SwitchStmt:
			if x.Tag == nil {
				for _, clause := range x.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						parts(e, true)
					}
				}
			}
		case *ast.ReturnStmt:
			for _, e := range x.Results {
				parts(e, false)
			}
		case *ast.AssignStmt:
			for _, e := range x.Rhs {
				parts(e, false)
			}
		}
		return true
	})
	return guards
}

// switchable returns a source in which each guard can be left out; the first has the number after before.
func switchable(source string, guards []guard, before int) string {
	type edit struct {
		at   int
		text string
	}
	var edits []edit
	for i, g := range guards {
		edits = append(edits, edit{g.from, g.opening(before + i + 1)}, edit{g.to, g.closing()})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(source[at:e.at])
		b.WriteString(e.text)
		at = e.at
	}
	b.WriteString(source[at:])
	return b.String()
}
