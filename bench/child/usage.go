//go:build linux

package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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

// clockTick is the unit of the times in /proc/PID/stat (USER_HZ, a constant of the kernel's interface on all common architectures).
const clockTick = 10 * time.Millisecond

// ReadCPU adds up the processor time of a process and its children.
func ReadCPU(root int) (CPU, error) {
	var sum CPU
	err := each(root, func(p procfs.Proc) error {
		threads, err := procfs.AllThreads(p.PID)
		if err != nil {
			return err
		}
		for _, thread := range threads {
			used, err := thread.Schedstat()
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread ended just now, before or after the file was opened
			}
			if err != nil {
				return err
			}
			sum.Total += time.Duration(used.RunningNanoseconds)
		}
		s, err := p.Stat()
		sum.User += time.Duration(s.UTime) * clockTick
		sum.System += time.Duration(s.STime) * clockTick
		return err
	})
	return sum, err
}

// ReadPSS adds up the proportional set sizes of a process and its children, in bytes: memory that they share counts once.
func ReadPSS(root int) (sum float64, err error) {
	err = each(root, func(p procfs.Proc) error {
		memory, err := p.ProcSMapsRollup()
		sum += float64(memory.Pss)
		return err
	})
	return sum, err
}

// ReadAnonymous adds up the memory of a process and its children that is not the content of files, in bytes.
func ReadAnonymous(root int) (sum float64, err error) {
	err = each(root, func(p procfs.Proc) error {
		status, err := p.NewStatus()
		sum += float64(status.RssAnon)
		return err
	})
	return sum, err
}

// ReadWakeUps counts how often the threads of a process and its children that still run have slept.
func ReadWakeUps(root int) (sum float64, err error) {
	err = each(root, func(p procfs.Proc) error {
		threads, err := procfs.AllThreads(p.PID)
		for _, thread := range threads {
			if status, err := thread.NewStatus(); err == nil { // else it ended just now
				sum += float64(status.VoluntaryCtxtSwitches)
			}
		}
		return err
	})
	return sum, err
}

// ReadPeak adds up the peak resident sizes of a process and its children, in bytes. Memory that several of them share counts in
// each of them.
func ReadPeak(root int) (sum float64, err error) {
	err = each(root, func(p procfs.Proc) error {
		status, err := p.NewStatus()
		sum += float64(status.VmHWM)
		return err
	})
	return sum, err
}

// each calls read for a process and all its descendants, until one fails.
func each(root int, read func(procfs.Proc) error) error {
	pids, err := tree(root)
	for i := 0; i < len(pids) && err == nil; i++ {
		var p procfs.Proc
		if p, err = procfs.NewProc(pids[i]); err == nil {
			err = read(p)
		}
	}
	if err != nil {
		return fmt.Errorf("usage of process %d: %w", root, err)
	}
	return nil
}

// tree lists a process and all its descendants.
func tree(root int) ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it ended just now
			children[s.PPID] = append(children[s.PPID], p.PID)
		}
	}
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = slices.Concat(pids, children[pids[i]])
	}
	return pids, nil
}

// Machine is a reading of the clocks that tell how busy everything else is: everything but this process and its children.
type Machine struct {
	at        time.Time
	idle, own time.Duration
}

// ReadMachine reads the clocks.
func ReadMachine() (Machine, error) {
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, err
	}
	// The kernel knows better how long the processors idled than how long they worked, which it samples.
	all, err := system.Stat()
	if err != nil {
		return Machine{}, err
	}
	own, err := ReadCPU(os.Getpid())
	return Machine{time.Now(), time.Duration((all.CPUTotal.Idle + all.CPUTotal.Iowait) * float64(time.Second)), own.Total}, err
}

// Others returns how many processors everything else used since an earlier reading: what disturbs a measurement. It is exact to a
// few hundredths.
func (m Machine) Others(start Machine) float64 {
	elapsed := m.at.Sub(start.at)
	busy := time.Duration(runtime.NumCPU())*elapsed - (m.idle - start.idle)
	return max(0, (busy-(m.own-start.own)).Seconds()/elapsed.Seconds())
}
