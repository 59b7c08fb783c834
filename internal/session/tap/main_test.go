package tap

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
