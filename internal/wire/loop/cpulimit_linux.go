package loop

import (
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/ground/cgroup"
)

// cpuLimit returns how many processors the process may use: those that it may run on, or the quota of its cgroups if that is less,
// which need not be a whole number.
func cpuLimit() float64 {
	limit := float64(runtime.NumCPU())
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil && set.Count() > 0 {
		limit = float64(set.Count())
	}
	if quota, ok := quota(ownCgroup()); ok {
		limit = min(limit, quota)
	}
	return limit
}

// ownCgroup returns the cgroup that the process was in at the start.
var ownCgroup = sync.OnceValue(func() cgroup.Group { return cgroup.Own("cpu") })

// quota returns the lowest limit of a cgroup and those above it, in processors. It returns false if there is none.
func quota(c cgroup.Group) (least float64, ok bool) {
	for _, directory := range c.Directories {
		quota, period := "", ""
		if c.Unified {
			quota, period, _ = strings.Cut(cgroup.Read(directory, "cpu.max"), " ")
		} else {
			quota, period = cgroup.Read(directory, "cpu.cfs_quota_us"), cgroup.Read(directory, "cpu.cfs_period_us")
		}
		q, err1 := strconv.ParseFloat(quota, 64) // max and -1 mean no limit
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 == nil && err2 == nil && q > 0 && p > 0 && (!ok || q/p < least) {
			least, ok = q/p, true
		}
	}
	return least, ok
}
