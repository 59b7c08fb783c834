package main

import (
	"os"
	"testing"
	"time"

	_ "github.com/wsbouncer/wsbouncer/internal/cli" // its changes are changes of the binary
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// proxyBinary is the path of the wsbouncer that the tests run.
var proxyBinary string

// testTimeout ends a test that hangs. A test that passes never waits for it.
const testTimeout = 5 * time.Minute

// TestMain builds the proxy. No test may leave anything behind.
func TestMain(m *testing.M) {
	os.Exit(wstest.BuildAndRun(m, false, func(path string) { proxyBinary = path }))
}
