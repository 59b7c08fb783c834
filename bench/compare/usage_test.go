//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

func TestReadCPUCountsOurOwnWork(t *testing.T) {
	start, err := readCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
	}
	now, err := readCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := now.since(start).total; used <= 0 {
		t.Errorf("100 ms of spinning counted as %v", used)
	}
}

func TestTreeIncludesChildren(t *testing.T) {
	p, err := startProcess([]string{"sleep", "60"})
	if err != nil {
		t.Skip(err)
	}
	defer p.stop()
	for _, pid := range tree(os.Getpid()) {
		if pid == p.pid() {
			return
		}
	}
	t.Errorf("child %d is not in %v", p.pid(), tree(os.Getpid()))
}

func TestMemoryIsRead(t *testing.T) {
	pss, err := readPSS(os.Getpid())
	if err != nil {
		t.Skip(err) // some kernels and containers do not show it
	}
	peak, err := readPeak(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if pss < 1<<16 || peak < pss/2 {
		t.Errorf("PSS %.0f and peak %.0f bytes cannot be right", pss, peak)
	}
}
