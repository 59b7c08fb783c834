package loop

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// processors is the budget of the process. There is one, because there is one scheduler.
var processors = newProcessorBudget(os.Getenv("GOMAXPROCS"), os.Getenv("GODEBUG"), cpuLimit)

// refreshInterval is how often the limit of processors is read. The runtime reads it once a second at most, too.
const refreshInterval = time.Second

// processorBudget sets how many Ps the scheduler has: as many as the process may use processors, and one more for each awake loop
// that keeps its P while it waits (see driver.wait).
//
// The runtime follows the process's limit, by cgroup or affinity, until GOMAXPROCS is set. So a program that sets it has to follow the limit
// instead. A limit is rounded up: with half a processor there are one P and one more for the loop, which is as many as the runtime
// would have. A P that a loop keeps while it sleeps uses no part of the limit.
type processorBudget struct {
	// Static.
	fixed  int            // the limit that the environment variable GOMAXPROCS fixes; 0 for none
	once   bool           // the limit is read only once
	limit  func() float64 // returns how many processors the process may use, perhaps a part of one
	set    func(n int)    // sets GOMAXPROCS
	follow func()         // makes the runtime follow the limit again

	mu        sync.Mutex
	base      int       // guarded by mu: the limit, rounded up; 0 before it was read
	refreshed time.Time // guarded by mu: when the limit was read
	extra     int       // guarded by mu: Ps for loops
	applied   int       // guarded by mu: what GOMAXPROCS was set to; 0 as long as the runtime follows the limit
}

// newProcessorBudget returns a budget, given the values of the environment variables.
func newProcessorBudget(gomaxprocs, godebug string, limit func() float64) *processorBudget {
	b := &processorBudget{limit: limit, set: func(n int) { runtime.GOMAXPROCS(n) }, follow: runtime.SetDefaultGOMAXPROCS}
	if n, err := strconv.Atoi(gomaxprocs); err == nil && n > 0 {
		b.fixed = n
	}
	for _, option := range strings.Split(godebug, ",") {
		switch option {
		case "containermaxprocs=0":
			b.limit = func() float64 { return float64(runtime.NumCPU()) }
		case "updatemaxprocs=0":
			b.once = true
		}
	}
	return b
}

// refresh reads the limit again, if it was not read within the last refreshInterval.
func (b *processorBudget) refresh(now time.Time) {
	b.mu.Lock()
	due := b.base == 0 || !b.once && now.Sub(b.refreshed) >= refreshInterval
	b.mu.Unlock()
	if !due {
		return
	}
	base := b.fixed
	if base == 0 {
		base = max(int(math.Ceil(b.limit())), 1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base, b.refreshed = base, now
	b.apply()
}

// add gives the scheduler n more Ps, or takes some back if n is negative.
func (b *processorBudget) add(n int) {
	b.refresh(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extra += n
	b.apply()
}

// apply sets how many Ps the scheduler has, if that has changed. The caller holds mu.
func (b *processorBudget) apply() {
	switch n := b.base + b.extra; {
	case b.extra > 0:
		if n != b.applied {
			b.set(n)
			b.applied = n
		}
	case b.applied == 0:
	case b.fixed > 0:
		b.set(b.fixed)
		b.applied = 0
	default:
		b.follow()
		b.applied = 0
	}
}

// count returns how many processors the process may use, rounded up.
func (b *processorBudget) count() int {
	b.refresh(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base
}

// Processors returns how many processors the process may use, rounded up: what the environment variable GOMAXPROCS says, or the
// limit of its container, or what the machine has. The number may change. Any goroutine may call it.
func Processors() int { return processors.count() }
