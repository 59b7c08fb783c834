package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	// So that a change of the proxy's code is a change of these tests, and no cached result is taken for theirs.
	_ "github.com/wsbouncer/wsbouncer/internal/cli"
)

// proxyBinary is the path of the wsbouncer that the tests run.
var proxyBinary string

// patience is only a way out of a test that hangs: a test that passes never waits for it.
const patience = 5 * time.Minute

// TestMain builds the proxy once, and sees to it that no test leaves anything behind.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "wsbouncer-stt")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	proxyBinary = filepath.Join(dir, "wsbouncer")
	if runtime.GOOS == "windows" {
		proxyBinary += ".exe"
	}
	build := exec.Command("go", "build", "-o", proxyBinary, "../../cmd/wsbouncer")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building wsbouncer:", err)
		return 1
	}
	status := m.Run()
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "left behind:", err)
			return 1
		}
	}
	return status
}
