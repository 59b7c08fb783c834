package configtest

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Bench loads, validates and compares a configuration of 5,000 backends.
func Bench(b *testing.B, s config.Store) {
	content := Sized(5000)
	before, err := s.Load(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if before, err = s.Apply(b.Context(), config.Change{Who: "bench", Expect: before.Version(), Content: &content}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		now, err := s.Load(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if edits := before.Diff(now); len(edits) > 0 {
			b.Fatal(edits)
		}
	}
}
