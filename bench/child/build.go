//go:build linux

package child

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Enter prepares this process for a benchmark. It changes the working directory to the repository's root, so that relative paths
// in flags mean the same wherever the command was started from, and raises the file-descriptor limit as far as the hard limit
// allows; children inherit both. It returns the root. The working directory must be inside the repository.
func Enter(ctx context.Context) (root string, err error) {
	log.SetFlags(0) // for the progress
	if root, err = Root(ctx); err != nil {
		return "", err
	}
	if err := os.Chdir(root); err != nil {
		return "", err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return "", fmt.Errorf("file-descriptor limit: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return "", fmt.Errorf("raising the file-descriptor limit to %d: %w", limit.Max, err)
	}
	return root, nil
}

// Root returns the folder of the product's module, which is the repository's root.
func Root(ctx context.Context) (string, error) {
	root, err := Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/wsbouncer/wsbouncer")
	if err != nil {
		return "", fmt.Errorf("run this inside the repository: %w", err)
	}
	return root, nil
}

// Build returns the path of the given binary. If none is given, it builds one from this checkout in a directory and returns that.
func Build(ctx context.Context, root, given, directory string, flags ...string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	binary := filepath.Join(directory, "wsbouncer")
	_, err := Output(ctx, root, "go", append(append([]string{"build"}, flags...), "-o", binary, "./cmd/wsbouncer")...)
	return binary, err
}

// Output runs a program in a folder and returns what it wrote to standard output and standard error. The error contains the end
// of that.
func Output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		text := strings.Join(strings.Fields(string(out)), " ")
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, text[max(0, len(text)-300):])
	}
	return strings.TrimSpace(string(out)), nil
}
