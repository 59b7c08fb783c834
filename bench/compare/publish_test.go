//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// TestCheck changes what was published, one file after the other.
func TestCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout := os.Stdout
	os.Stdout, _ = os.Open(os.DevNull) // for the tables
	defer func() { os.Stdout = stdout }()
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("README.md", "Text.\n<!-- make bench writes this -->\n\n\n<!-- until here -->\n")
	r := &results.Report{Time: time.Unix(0, 0).UTC(), Base: "wsbouncer", Plan: "whole", Scenarios: []results.Scenario{{Name: "relay", Base: "wsbouncer"}}}
	if err := publish(r, docs); err != nil {
		t.Fatal(err)
	}
	if err := check(docs); err != nil {
		t.Fatal(err)
	}
	for name, changed := range map[string][2]string{
		"README.md":               {"1970-01-01", "2000-01-01"},
		docs + "/benchmarks.md":   {"# Benchmarks", "# Results"},
		docs + "/benchmarks.json": {"1970-01-01", "1970-01-02"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, strings.Replace(string(text), changed[0], changed[1], 1))
		if err := check(docs); err == nil || !strings.Contains(err.Error(), "is not what docs/internals/benchmarks.json makes of it") {
			t.Errorf("after a change of %s: %v", name, err)
		}
		write(name, string(text))
	}
}
