//go:build linux

package upgradeproof

import (
	"flag"
	"os"
	"testing"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// program is the path of the wsbouncer that is tested.
var program string

// raced: otherwise without the race detector, which makes it slow.
var raced = flag.Bool("program-race", false, "build the program with the race detector")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(wstest.BuildAndRun(m, *raced, func(path string) { program = path }))
}
