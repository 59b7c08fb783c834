//go:build linux

package fleetproof

import (
	"os"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// program is the path of the wsbouncer that is tested: without the race detector, which makes it too slow for the stated times.
var program string

func TestMain(m *testing.M) {
	os.Exit(wstest.BuildAndRun(m, false, func(path string) { program = path }))
}
