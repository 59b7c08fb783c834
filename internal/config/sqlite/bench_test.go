package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/storetest"
)

func BenchmarkLoad(b *testing.B) {
	s := opener(filepath.Join(b.TempDir(), "config.db"))(b, config.Options{})
	defer s.Close()
	storetest.Bench(b, s)
}
