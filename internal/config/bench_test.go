package config_test

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// BenchmarkSnapshot validates a content of 5,000 backends and compares it with the one before.
func BenchmarkSnapshot(b *testing.B) {
	before, after := configtest.Sized(5000), configtest.Sized(5000)
	first := after.Backends["gpu-1"]
	first.Connections = 48
	after.Backends["gpu-1"] = first
	old, err := config.NewSnapshot("1", &before, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		now, err := config.NewSnapshot("2", &after, nil)
		if err != nil {
			b.Fatal(err)
		}
		if edits := old.Diff(now); len(edits) != 1 {
			b.Fatal(edits)
		}
	}
}
