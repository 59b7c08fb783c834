//go:build linux

package child

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
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

// Main is the main function of a benchmark. parse reads the flags; run gets them, and a context that ends when the process is
// interrupted. The exit status is 2 for wrong usage and 1 for a failure.
func Main[Options any](parse func() (Options, error), run func(context.Context, Options) error) {
	log.SetFlags(0)
	o, err := parse()
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag; there are no arguments", flag.Arg(0))
	}
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}
