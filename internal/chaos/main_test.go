package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the wsbouncer that the tests run.
var binary string

// TestMain builds the binary. No server or client of a test may outlive it.
func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "chaos-test-")
	if err == nil {
		binary = filepath.Join(directory, "wsbouncer")
		var output []byte
		if output, err = exec.Command("go", "build", "-o", binary, "../../cmd/wsbouncer").CombinedOutput(); err != nil {
			err = fmt.Errorf("building wsbouncer: %w: %s", err, bytes.TrimSpace(output))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(directory)
		os.Exit(status)
	}))
}
