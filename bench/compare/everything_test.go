//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// The commands that configure the rows with keys are those of today's wsbouncer.
func TestConfigure(t *testing.T) {
	root, err := child.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := child.Build(t.Context(), root, "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, task := new(all), rivals.Task{Backends: []string{"127.0.0.1:9001", "127.0.0.1:9002"}, Sessions: 10}
	if err := a.configure(binary, filepath.Join(t.TempDir(), "services.yaml"), task, "--failover", "replay"); err != nil || a.key == "" {
		t.Errorf("the key %q, %v", a.key, err)
	}
}
