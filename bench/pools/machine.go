package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick of the clock in which Linux counts processor time, on all its common platforms.
const clockTick = 10 * time.Millisecond

// machine is a moment's reading of the clocks that tell how busy everything but this process is, from /proc.
type machine struct {
	at        time.Time
	idle, own time.Duration
}

// readMachine fails where there is no /proc.
func readMachine() (machine, error) {
	system, err := os.ReadFile("/proc/stat")
	if err != nil {
		return machine{}, err
	}
	line, _, _ := strings.Cut(string(system), "\n")
	idle, err := ticks(strings.Fields(line), 4, 5) // idle, iowait
	if err != nil {
		return machine{}, fmt.Errorf("/proc/stat: %w", err)
	}
	process, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return machine{}, err
	}
	// The second field is a name in parentheses, which may contain anything.
	own, err := ticks(strings.Fields(string(process[bytes.LastIndexByte(process, ')')+1:])), 11, 12) // utime, stime
	if err != nil {
		return machine{}, fmt.Errorf("/proc/self/stat: %w", err)
	}
	return machine{time.Now(), idle, own}, nil
}

// ticks adds up two fields.
func ticks(fields []string, first, second int) (time.Duration, error) {
	if len(fields) <= second {
		return 0, fmt.Errorf("only %d fields", len(fields))
	}
	a, err := strconv.ParseInt(fields[first], 10, 64)
	if err != nil {
		return 0, err
	}
	b, err := strconv.ParseInt(fields[second], 10, 64)
	return time.Duration(a+b) * clockTick, err
}

// others returns the number of processors that everything else kept busy since then: what disturbs a measurement.
func (m machine) others(start machine) float64 {
	elapsed := m.at.Sub(start.at)
	busy := time.Duration(runtime.NumCPU())*elapsed - (m.idle - start.idle)
	return max(0, (busy-(m.own-start.own)).Seconds()/elapsed.Seconds())
}
