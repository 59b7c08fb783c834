//go:build unix

package e2e

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// binary is the path of the wsbouncer that is tested.
var binary string

// TestMain builds the binary. No test may leave anything behind. Three times as many tests as processors run at a time, unless a flag says otherwise,
// since most of them wait for processes most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.NumCPU())) // never fails
	}
	os.Exit(wstest.BuildAndRun(m, wstest.Race, func(path string) { binary = path }))
}
