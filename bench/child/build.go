//go:build linux

package child

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Root returns the folder of the product's module, which is the repository's root. The caller's working directory must be inside
// the repository.
func Root(ctx context.Context) (string, error) {
	root, err := Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/wsbouncer/wsbouncer")
	if err != nil {
		return "", fmt.Errorf("run this inside the repository: %w", err)
	}
	return root, nil
}

// Build returns the path of the given binary. If none is given, it builds bin/wsbouncer from this checkout and returns that.
func Build(ctx context.Context, given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", "wsbouncer")
	_, err = Output(ctx, root, "go", "build", "-o", binary, "./cmd/wsbouncer")
	return binary, err
}

// Output runs a program in a folder and returns what it wrote to standard output and standard error. The error contains the end
// of that.
func Output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.WaitDelay = time.Second
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, end(string(text)))
	}
	return strings.TrimSpace(string(text)), nil
}

// end returns the end of a text in one line.
func end(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return text
}
