//go:build !linux

package presence

import (
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// Host identifies this host, since its system has started where that is known; empty if neither is known.
func Host() string { return digest(runtime.GOOS + hostname() + machine.Boot()) }

// listens is not known here: the refusal has to do.
func listens(net.IP, int) bool { return false }

// machineID identifies the machine by its name.
func machineID() string { return digest(runtime.GOOS + hostname()) }

// inode identifies a folder by its path, so that a copy elsewhere is another.
func inode(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return absolute
}

// sign does nothing: a copy of a lock's file cannot be told from the file here.
func sign(string) error { return nil }

func isSigned(string) bool { return true }

// hostname returns the host's name; empty if it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
