package jobs

import (
	"testing"

	"go.uber.org/goleak"
)

// No server, session, loop, job or client of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
