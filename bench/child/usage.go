//go:build linux

package child

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU is the processor time that a process and its children have used.
type CPU struct {
	Total        time.Duration // from the scheduler, to the nanosecond
	User, System time.Duration // from the clock ticks: good for the split only
}

// Since returns what was used since an earlier reading.
func (c CPU) Since(start CPU) CPU {
	return CPU{c.Total - start.Total, c.User - start.User, c.System - start.System}
}

// clockTick is the unit of the times in /proc/PID/stat (USER_HZ, a constant of
// the kernel's interface on all common architectures).
const clockTick = 10 * time.Millisecond

// ReadCPU adds up the processor time of a process and its children.
func ReadCPU(root int) (CPU, error) {
	var sum CPU
	for _, pid := range tree(root) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(tasks) == 0 {
			return CPU{}, fmt.Errorf("process %d has no scheduler statistics", pid)
		}
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread ended just now, before or after the file was opened
			}
			if err != nil {
				return CPU{}, err
			}
			ns, _, _ := strings.Cut(string(text), " ")
			n, err := strconv.ParseInt(ns, 10, 64)
			if err != nil {
				return CPU{}, fmt.Errorf("%s: %w", task, err)
			}
			sum.Total += time.Duration(n)
		}
		fields, err := statFields(pid)
		if err != nil {
			return CPU{}, err
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		sum.User += time.Duration(user) * clockTick
		sum.System += time.Duration(system) * clockTick
	}
	return sum, nil
}

// ReadPSS adds up the proportional set sizes of a process and its children, in
// bytes: memory that they share counts once.
func ReadPSS(root int) (float64, error) { return sumKB(root, "smaps_rollup", "Pss:") }

// ReadPeak adds up their peak resident sizes, in bytes. Memory that several
// processes share counts in each of them.
func ReadPeak(root int) (float64, error) { return sumKB(root, "status", "VmHWM:") }

func sumKB(root int, file, key string) (float64, error) {
	sum := 0.0
	for _, pid := range tree(root) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return 0, err
		}
		_, rest, ok := strings.Cut(string(text), "\n"+key)
		if !ok {
			return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, key)
		}
		kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return 0, err
		}
		sum += kb * 1024
	}
	return sum, nil
}

// tree lists a process and all its descendants.
func tree(root int) []int {
	children := map[int][]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if fields, err := statFields(pid); err == nil {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = slices.Concat(pids, children[pids[i]])
	}
	return pids
}

// statFields returns the fields of /proc/PID/stat that follow the name, which
// may itself hold blanks: state, parent, and so on.
func statFields(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return fields, nil
}
