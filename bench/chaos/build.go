//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// build returns the given binary's path, or that of this checkout's, which it builds.
func build(ctx context.Context, given string) (string, error) {
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

// raiseDescriptorLimit allows as many open files as the hard limit does. Children inherit that.
func raiseDescriptorLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
