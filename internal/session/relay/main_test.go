package relay

import (
	"testing"

	"go.uber.org/goleak"
)

// No server, session, loop or client of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
