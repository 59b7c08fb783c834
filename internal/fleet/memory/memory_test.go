package memory

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Place {
		d := New()
		return storetest.Place{Open: func(testing.TB) fleet.Store { return d.Store() }, Restart: func(testing.TB) { d.Restart() }}
	})
}
