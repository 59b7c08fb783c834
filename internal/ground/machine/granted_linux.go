package machine

import (
	"os"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/cgroup"
)

// memoryLimit returns how many bytes the process may use, and whose they are: its cgroup's limit, or what the machine has if that is less.
func memoryLimit() (bytes int64, of string) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return -1, ""
	}
	return leastMemory(machineMemory(string(text)), cgroup.Own("memory"))
}

// machineMemory returns the memory of the machine, given the contents of /proc/meminfo; -1 if it is not there.
func machineMemory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return -1
}

// leastMemory returns the lowest of the machine's memory and the limits of a cgroup and those above it.
func leastMemory(machine int64, group cgroup.Group) (bytes int64, of string) {
	bytes, of = machine, "the machine"
	file := "memory.limit_in_bytes" // no limit is a number that no machine has
	if group.Unified {
		file = "memory.max" // no limit is max
	}
	for _, directory := range group.Directories {
		if n, err := strconv.ParseInt(cgroup.Read(directory, file), 10, 64); err == nil && n >= 0 && (bytes < 0 || n < bytes) {
			bytes, of = n, "the control group (the container or the systemd unit)"
		}
	}
	return bytes, of
}

// localPorts returns how many local ports the system uses for connections from one address to one server. They hold for IPv6, too.
func localPorts() int {
	within, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return -1
	}
	reserved, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_reserved_ports")
	return countPorts(string(within), string(reserved))
}

// countPorts returns how many ports are in a range, "32768 60999", but not reserved, "8080,9148-9150" (the kernel's
// Documentation/networking/ip-sysctl.rst); -1 if there is no range.
func countPorts(within, reserved string) int {
	fields := strings.Fields(within)
	if len(fields) != 2 {
		return -1
	}
	low, err1 := strconv.Atoi(fields[0])
	high, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil || low > high {
		return -1
	}
	count := high - low + 1
	for _, part := range strings.Split(strings.TrimSpace(reserved), ",") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 == nil && err2 == nil {
			count -= max(min(to, high)-max(from, low)+1, 0)
		}
	}
	return count
}
