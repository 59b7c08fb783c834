//go:build linux

package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long what normally takes a moment may take.
const patience = 30 * time.Second

// startSimulator starts an echo server at the address. It counts its connections, but sets them no limit: to see whether the
// proxy goes too far.
func startSimulator(ctx context.Context, name, binary, address string) (*process, error) {
	p, err := startProcess(name, binary, "sim", "--protocol", "echo", "--listen", address)
	if err != nil {
		return nil, err
	}
	err = await(ctx, patience, name+" listens", func() (bool, error) { return len(p.stdout.all()) > 0, p.running() })
	if err != nil {
		p.stop(syscall.SIGKILL)
		return nil, err
	}
	return p, nil
}

var peakField = regexp.MustCompile(`simulated server ends.* peak=(\d+)`)

// peak returns the most connections that a simulator, which has ended in order, has ever had at once; -1 when it did not say.
func peak(p *process) int {
	m := peakField.FindStringSubmatch(strings.Join(p.stderr.all(), "\n"))
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}
