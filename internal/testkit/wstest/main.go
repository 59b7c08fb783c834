package wstest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// BuildAndRun builds the wsbouncer binary, with the race detector or without, calls with its path, and runs the tests. It returns
// the status to exit with, which is not 0 if a test left a goroutine behind. Packages that use it import internal/cli, so that
// a change of the binary invalidates the cached results of their tests.
func BuildAndRun(m *testing.M, race bool, with func(binary string)) int {
	directory, err := os.MkdirTemp("", "wsbouncer-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	binary := filepath.Join(directory, "wsbouncer")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	args := []string{"build", "-ldflags=-s -w", "-o", binary} // without debugging information, it is linked faster
	if race {
		args = append(args, "-race", "-gcflags=modernc.org/...=-race=false") // as the Makefile does, and says why
	}
	build := exec.Command("go", append(args, "github.com/wsbouncer/wsbouncer/cmd/wsbouncer")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building wsbouncer:", err)
		return 1
	}
	with(binary)
	return RunAndFindLeaks(m)
}

// RunAndFindLeaks runs the tests. It returns the status to exit with, which is not 0 if a test left a goroutine behind.
func RunAndFindLeaks(m *testing.M, ignored ...goleak.Option) int {
	status := m.Run()
	if status != 0 {
		return status
	}
	if err := goleak.Find(ignored...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
		return 1
	}
	return 0
}

// ManyAtATime has four parallel tests for each processor run at a time, unless the command line says otherwise: for packages whose tests
// mostly wait for sockets. TestMain calls it before it runs the tests.
func ManyAtATime() {
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
