//go:build linux

package child

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestReadCPUCountsOurOwnWork(t *testing.T) {
	start, err := ReadCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
	}
	now, err := ReadCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := now.Since(start).Total; used <= 0 {
		t.Errorf("100 ms of spinning counted as %v", used)
	}
}

func TestReadCPUWhileThreadsEnd(t *testing.T) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			var thread sync.WaitGroup
			thread.Go(runtime.LockOSThread) // and never unlocked: the thread ends with the goroutine
			thread.Wait()
		}
	})
	defer running.Wait()
	defer close(stop)
	for range 100 {
		if _, err := ReadCPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTreeIncludesChildren(t *testing.T) {
	p, err := Start([]string{"sleep", "60"})
	if err != nil {
		t.Skip(err)
	}
	defer p.Stop()
	pids, err := tree(os.Getpid())
	if err != nil || !slices.Contains(pids, p.PID()) {
		t.Errorf("child %d is not in %v (%v)", p.PID(), pids, err)
	}
}

func TestMemoryIsRead(t *testing.T) {
	pss, err := ReadPSS(os.Getpid())
	if err != nil {
		t.Skip(err) // some kernels and containers do not show it
	}
	peak, err := ReadPeak(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if anonymous, err := ReadAnonymous(os.Getpid()); err != nil || anonymous < 1<<16 || anonymous > peak {
		t.Errorf("%.0f bytes that are not the content of files, of a peak of %.0f (%v)", anonymous, peak, err)
	}
	if pss < 1<<16 || peak < pss/2 {
		t.Errorf("PSS %.0f and peak %.0f bytes cannot be right", pss, peak)
	}
}

func TestWakeUpsAreCounted(t *testing.T) {
	const naps = 100
	start, err := ReadWakeUps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range naps {
		_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 1000}, nil)
	}
	if now, err := ReadWakeUps(os.Getpid()); err != nil || now-start < naps {
		t.Errorf("%d naps counted as %.0f (%v)", naps, now-start, err)
	}
}
