//go:build linux

package child

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build returns the given binary's path, or that of this checkout's, which it builds.
func Build(ctx context.Context, given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("run this inside the module: %w", err)
	}
	binary := filepath.Join(strings.TrimSpace(string(root)), "bin", "wsbouncer")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/wsbouncer")
	command.Dir = strings.TrimSpace(string(root))
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building wsbouncer: %w: %s", err, text)
	}
	return binary, nil
}
