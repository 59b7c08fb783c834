package machine

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNetworkFile: a folder on FUSE is on a file system for several hosts. Only root may mount one.
func TestNetworkFile(t *testing.T) {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = device.Close() }()
	path := t.TempDir()
	if kind := NetworkFile(path); kind != "" {
		t.Skip("temporary files are on", kind)
	}
	// No process serves it. The kernel answers other users than its owner itself.
	if err := unix.Mount("none", path, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=1,group_id=1", device.Fd())); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Unmount(path, unix.MNT_DETACH) }()
	if kind := NetworkFile(path); kind != "FUSE" {
		t.Errorf("a folder on FUSE is on %q", kind)
	}
}
