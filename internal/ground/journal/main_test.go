package journal

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
