//go:build linux

package child

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// idleTime is how long the machine's processors have idled, all together. The
// kernel knows that better than how long they worked, which it samples.
func idleTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	const idle, iowait = 4, 5
	if len(fields) <= iowait || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	sum := time.Duration(0)
	for _, field := range fields[idle : iowait+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += time.Duration(ticks) * clockTick
	}
	return sum, nil
}

// Machine is a moment's reading of the clocks that tell how busy everything but
// this comparison is: its rival, its backends and its load count as its own.
type Machine struct {
	at        time.Time
	idle, own time.Duration
}

// ReadMachine reads them.
func ReadMachine() (Machine, error) {
	idle, err := idleTime()
	if err != nil {
		return Machine{}, err
	}
	own, err := ReadCPU(os.Getpid())
	return Machine{time.Now(), idle, own.Total}, err
}

// Others is the number of processors that everything else kept busy since then:
// what disturbs a measurement. It is exact to a few hundredths.
func (m Machine) Others(start Machine) float64 {
	elapsed := m.at.Sub(start.at)
	busy := time.Duration(runtime.NumCPU())*elapsed - (m.idle - start.idle)
	return max(0, (busy-(m.own-start.own)).Seconds()/elapsed.Seconds())
}
