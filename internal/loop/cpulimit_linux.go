package loop

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// cpuLimit returns how many processors the process may use: those that it may run on, or the quota of its cgroups if that is less,
// which need not be a whole number.
func cpuLimit() float64 {
	limit := float64(runtime.NumCPU())
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil && set.Count() > 0 {
		limit = float64(set.Count())
	}
	if quota, ok := ownCgroup().quota(); ok {
		limit = min(limit, quota)
	}
	return limit
}

// ownCgroup returns the cgroup that the process was in at the start.
var ownCgroup = sync.OnceValue(func() cgroup {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return findCgroup(string(groups), string(mounts))
})

// cgroup is the cgroup that limits the processors, and those above it as far as they are visible. The lowest of their limits counts.
type cgroup struct {
	directories []string // the lowest first
	unified     bool     // cgroups of version 2
}

// findCgroup finds the cgroup, given the contents of /proc/self/cgroup and /proc/self/mountinfo (cgroups(7),
// proc_pid_mountinfo(5)).
func findCgroup(groups, mounts string) (c cgroup) {
	at, found := "", false
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), "cpu"): // version 1, which counts where there are both versions
			at, found, c.unified = parts[2], true, false
		case parts[0] == "0" && !found:
			at, found, c.unified = parts[2], true, true
		}
	}
	if !found {
		return c
	}
	for line := range strings.Lines(mounts) {
		own, super, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(own), strings.Fields(super)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		if c.unified && kind[0] != "cgroup2" ||
			!c.unified && (kind[0] != "cgroup" || !slices.Contains(strings.Split(kind[2], ","), "cpu")) {
			continue
		}
		root, mounted := unescape(fields[3]), unescape(fields[4])
		below, ok := strings.CutPrefix(at, strings.TrimSuffix(root, "/"))
		if !ok || below != "" && below[0] != '/' { // another part of the tree is mounted: a container sees only its own
			below = ""
		}
		for below = path.Clean("/" + below); ; below = path.Dir(below) {
			c.directories = append(c.directories, path.Join(mounted, below))
			if below == "/" {
				return c
			}
		}
	}
	return c
}

// unescape returns a path of mountinfo, which writes white space and backslashes as octal numbers.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// quota returns the lowest limit, in processors. It returns false if there is none.
func (c cgroup) quota() (least float64, ok bool) {
	for _, directory := range c.directories {
		quota, period := "", ""
		if c.unified {
			quota, period, _ = strings.Cut(read(directory, "cpu.max"), " ")
		} else {
			quota, period = read(directory, "cpu.cfs_quota_us"), read(directory, "cpu.cfs_period_us")
		}
		q, err1 := strconv.ParseFloat(quota, 64) // max and -1 mean no limit
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 && (!ok || q/p < least) {
			least, ok = q/p, true
		}
	}
	return least, ok
}

// read returns the text of a file without white space around it; empty if it cannot be read.
func read(directory, file string) string {
	text, err := os.ReadFile(path.Join(directory, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
