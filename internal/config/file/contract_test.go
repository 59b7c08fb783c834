package file

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestContract(t *testing.T) {
	configtest.Run(t, func(t *testing.T) configtest.Place {
		path := filepath.Join(t.TempDir(), "config.yaml")
		return configtest.Place{Open: func(t testing.TB, options config.Options) config.Store {
			t.Helper()
			s, err := Open(path, options)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
