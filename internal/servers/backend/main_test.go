package backend

import (
	"testing"

	"go.uber.org/goleak"
)

// No server, connection, loop or worker of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
