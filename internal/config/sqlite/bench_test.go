package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func BenchmarkLoad(b *testing.B) {
	s := opener(filepath.Join(b.TempDir(), "config.db"))(b, config.Options{})
	defer s.Close()
	configtest.Bench(b, s)
}
