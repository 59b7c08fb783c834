package kit

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// MiB is a mebibyte in bytes.
const MiB = 1 << 20

// Memory returns the resident memory of the process in bytes; 0 where that cannot be known.
func (p *Process) Memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		pages, _ := strconv.Atoi(fields[1])
		return pages * os.Getpagesize()
	}
	return 0
}

// ProcessorTime returns the processor time that the process has used; 0 where that cannot be known.
func (p *Process) ProcessorTime() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	_, behindName, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(behindName)
	if len(fields) < 13 {
		return 0
	}
	ticks := 0 // of user and system; see proc_pid_stat(5)
	for _, field := range fields[11:13] {
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // Linux reports a hundred a second on all machines
}

// OpenFiles returns how many files the process has open; -1 where that cannot be known.
func (p *Process) OpenFiles() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		return -1
	}
	return len(entries)
}

// raceReport begins what a program that was built with the race detector says of a data race.
const raceReport = "WARNING: DATA RACE"

// Races returns an error that names the files below a directory in which a program has reported a data race; nil if there are none. Programs report one
// in their standard error, which is in their logs, at the moment of the race: also those that are killed later.
func Races(directory string) error {
	var files []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(raceReport)) {
			files = append(files, path)
		}
		return err
	})
	if len(files) > 0 {
		return fmt.Errorf("data races in the program: %s", strings.Join(files, ", "))
	}
	return err
}
