//go:build linux

package main

import (
	"bufio"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/bench/results"
)

// machine describes the machine, as far as it matters for the numbers.
func machine() results.Machine {
	m := results.Machine{
		Processors: runtime.NumCPU(), Go: runtime.Version(),
		Model: field("/proc/cpuinfo", "model name", ":"), System: strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
	}
	if kb, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"), 64); err == nil {
		m.Memory = kb / (1 << 20)
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = kernelVersion(unix.ByteSliceToString(name.Release[:]))
	}
	return m
}

var version = regexp.MustCompile(`^\d+(\.\d+)*`)

// kernelVersion returns a release without its builder's suffix.
func kernelVersion(release string) string { return "Linux " + version.FindString(release) }

// field returns the value of a key in a file of lines.
func field(file, key, separator string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commandLine returns the command that repeats this run.
func commandLine() string { return commandFor(os.Args[1:]) }

// commandFor returns make's command for some flags.
func commandFor(flags []string) string {
	if len(flags) == 0 {
		return "make bench"
	}
	return "make bench BENCH_FLAGS='" + strings.Join(flags, " ") + "'"
}
