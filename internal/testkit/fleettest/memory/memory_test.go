package memory

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	fleettest.Run(t, func(*testing.T) fleettest.Place {
		d := New()
		return fleettest.Place{Open: func(testing.TB) fleet.Store { return d.Store() }, Restart: func(testing.TB) { d.Restart() }}
	})
}
