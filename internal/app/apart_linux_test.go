package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The sockets of processes that were killed while they drained are removed, and nothing else is.
func TestSweepApart(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	stale := func(name string) string {
		path := filepath.Join(directory, name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		_ = l.Close()
		return path
	}
	dead := stale(fmt.Sprintf(apartName, ended.Process.Pid))
	kept := []string{
		stale("admin.sock"), stale("admin-x.sock"), stale("admin-1.sock.old"),
		stale(fmt.Sprintf(apartName, os.Getpid())), // it lives
		filepath.Join(directory, fmt.Sprintf("admin-0%d.sock", ended.Process.Pid)),
	}
	if err := os.WriteFile(kept[4], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	answers, err := net.Listen("unix", filepath.Join(directory, "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	p := new(Proxy)
	p.settings.AdminSocket = kept[0]
	if err := p.listenAdmin(); err != nil { // as every start does
		t.Fatal(err)
	}
	defer p.adminAt[0].Close()
	if _, err := os.Lstat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v; want it removed", dead, err)
	}
	for _, path := range kept {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed too much: %v", err)
		}
	}

	// A process of another namespace may have the same id: it answers.
	if err := os.Rename(filepath.Join(directory, "elsewhere"), dead); err != nil {
		t.Fatal(err)
	}
	sweepApart(directory)
	if _, err := os.Lstat(dead); err != nil {
		t.Errorf("a socket at which a process answers: %v", err)
	}
}
