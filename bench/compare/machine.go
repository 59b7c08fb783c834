//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// busyTime is how long the machine's processors have been at work, all together.
func busyTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	busy := time.Duration(0)
	for i, field := range fields[1:9] {
		const idle, iowait = 3, 4
		if i == idle || i == iowait {
			continue
		}
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		busy += time.Duration(ticks) * clockTick
	}
	return busy, nil
}

// others is the processor time of everything but this comparison (its rival,
// its backends and its load included): what disturbs a measurement.
func others() (time.Duration, error) {
	busy, err := busyTime()
	if err != nil {
		return 0, err
	}
	own, err := readCPU(os.Getpid())
	return busy - own.total, err
}
