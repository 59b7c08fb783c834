package faults

import (
	"net"
	"os"
	"testing"
)

// descriptors returns how many descriptors the process has open, or -1 where that cannot be known.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// steadyDescriptors is descriptors after the runtime has opened its own, which it does with the first socket.
func steadyDescriptors(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return descriptors()
}
