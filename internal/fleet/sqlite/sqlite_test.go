package sqlite

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store in a file, with a boot of its own if it is given.
func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Poll: 10 * 1e6})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "fleet.db")
		return storetest.Place{Open: func(t testing.TB) fleet.Store { return open(t, path) }}
	})
}
