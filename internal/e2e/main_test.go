//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	// So that a change of the binary's code is a change of these tests, and no cached result is taken for theirs.
	_ "github.com/wsbouncer/wsbouncer/internal/cli"
)

// binary is the path of the wsbouncer that is tested.
var binary string

// TestMain builds the binary once, and sees to it that no test leaves anything behind.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "wsbouncer-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "wsbouncer")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../../cmd/wsbouncer")...)
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
