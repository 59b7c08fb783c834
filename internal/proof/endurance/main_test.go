//go:build linux

package endurance

import (
	"os"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// program is the path of the wsbouncer that is tested.
var program string

func TestMain(m *testing.M) {
	os.Exit(wstest.BuildAndRun(m, false, func(path string) { program = path }))
}
