package presence

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// Host identifies this host since its system has started, and the network namespace of this process on it; empty if that is not known.
func Host() string {
	boot := machine.Boot()
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil || boot == "" {
		return ""
	}
	return digest(boot + namespace)
}

// listens reports whether a socket of this network namespace may listen at an address of this host: the kernel lets no socket bind what another
// socket listens at. A firewall of this host cannot make that up, as it can a refusal. Nothing is accepted here.
func listens(ip net.IP, port int) bool {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: [16]byte(ip.To16())})
	if four := ip.To4(); four != nil {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte(four)}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil { // connections that end there do not matter
		return true
	}
	return unix.Bind(fd, address) != nil
}

// machineID identifies the machine over restarts of its system, so that a clone of it is another: by the addresses of its network cards,
// too, of which no two in a network are the same. It is empty in containers, which see none.
func machineID() string {
	data, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	var cards []string
	for i := range interfaces {
		if _, err := os.Stat(filepath.Join("/sys/class/net", interfaces[i].Name, "device")); err == nil && len(interfaces[i].HardwareAddr) > 0 {
			cards = append(cards, interfaces[i].HardwareAddr.String())
		}
	}
	if len(cards) == 0 {
		return ""
	}
	slices.Sort(cards)
	return digest(strings.TrimSpace(string(data)) + strings.Join(cards, ","))
}

// inode identifies a folder on its disk.
func inode(path string) string {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return ""
	}
	return fmt.Sprint(s.Ino)
}

// sign writes into a lock's file which file it is. A copy, as from a backup, has another inode for as long as the process holds the original
// open, even if that was removed, so no process takes the copy for it. The disk has taken both when sign returns: after a loss of power, the file proves
// that its process has ended.
func sign(path string) error {
	err := fileowner.Write(path, []byte(inode(path)))
	fileowner.SyncDirectory(filepath.Dir(path))
	return err
}

// isSigned reports whether a lock's file is the one that a process has made, and no copy of it.
func isSigned(path string) bool {
	said, err := os.ReadFile(path)
	return err == nil && len(said) > 0 && string(said) == inode(path)
}
