package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func TestContract(t *testing.T) {
	configtest.Run(t, func(t *testing.T) configtest.Place {
		path := filepath.Join(t.TempDir(), "own config ?#%.db")
		return configtest.Place{Open: opener(path)}
	})
}

func opener(path string) func(testing.TB, config.Options) config.Store {
	return func(t testing.TB, options config.Options) config.Store {
		t.Helper()
		s, err := Open(path, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
