package file

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "config.yaml")
		return storetest.Place{Open: func(t testing.TB, options config.Options) config.Store {
			t.Helper()
			s, err := Open(path, options)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
