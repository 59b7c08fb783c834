//go:build unix

package e2e

import (
	"os"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// binary is the path of the wsbouncer that is tested.
var binary string

// TestMain builds the binary. No test may leave anything behind.
func TestMain(m *testing.M) {
	os.Exit(wstest.BuildAndRun(m, wstest.Race, func(path string) { binary = path }))
}
