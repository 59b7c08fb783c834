package throttle

import (
	"testing"

	"go.uber.org/goleak"
)

// No loop of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
