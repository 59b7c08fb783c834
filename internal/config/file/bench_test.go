package file

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func BenchmarkLoad(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "config.yaml"), config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	configtest.Bench(b, s)
}
