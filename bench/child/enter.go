//go:build linux

package child

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// Enter prepares this process for a benchmark. It changes the working directory to the repository's root, so that relative paths
// in flags mean the same wherever the command was started from, and raises the file-descriptor limit as far as the hard limit
// allows; children inherit both. It returns the root.
func Enter(ctx context.Context) (root string, err error) {
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
