package chaos

import (
	"os"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // a change of it changes the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// binary is the wsbouncer that the tests run.
var binary string

// TestMain builds the binary. No server or client of a test may outlive it.
func TestMain(m *testing.M) {
	if Besieger() {
		return
	}
	os.Exit(wstest.BuildAndRun(m, false, func(path string) { binary = path }))
}
