package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestTracingOnlyImportsOpenTelemetry keeps OpenTelemetry in one place: sessions know the form of a traceparent and nothing else.
func TestTracingOnlyImportsOpenTelemetry(t *testing.T) {
	found := false
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			switch {
			case !strings.Contains(spec.Path.Value, "go.opentelemetry.io/"):
			case filepath.ToSlash(filepath.Dir(file)) == "operate/tracing":
				found = true
			default:
				t.Errorf("%s imports %s", file, spec.Path.Value)
			}
		}
		return nil
	})
	if err != nil || !found {
		t.Errorf("found %v, %v", found, err)
	}
}
