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

// processors is the book of the process: there is one, as there is one scheduler.
var processors = newProcessorBook(os.Getenv("GOMAXPROCS"), os.Getenv("GODEBUG"), cpuLimit)

// lookAgain is how often the limit of processors is looked at. The runtime does so once a second at most.
const lookAgain = time.Second

// processorBook tells the scheduler how many Ps it may have: as many as the process may use processors, and one more for each awake
// loop that keeps its own while it waits (see driver.wait).
//
// The runtime follows the limit by itself, a container's (cgroup) or the affinity, until it is told a number. So whoever tells it one
// has to follow the limit, too. A limit is rounded up: with half a processor there are one P and one more for the loop, which is
// as many as the runtime would have. What a loop keeps while it sleeps uses no part of the limit.
type processorBook struct {
	// Static.
	fixed  int            // the limit if GOMAXPROCS says one, which nothing changes; 0 for none
	once   bool           // the limit is looked at once only
	limit  func() float64 // returns how many processors the process may use, perhaps a part of one
	set    func(n int)    // tells the scheduler
	follow func()         // has the runtime follow the limit by itself again

	mu     sync.Mutex
	base   int       // guarded by mu: the limit, rounded up
	looked time.Time // guarded by mu
	extra  int       // guarded by mu: Ps for loops
	told   int       // guarded by mu: what the scheduler was told; 0 for nothing
}

// newProcessorBook returns a book for what the environment says.
func newProcessorBook(gomaxprocs, godebug string, limit func() float64) *processorBook {
	b := &processorBook{limit: limit, set: func(n int) { runtime.GOMAXPROCS(n) }, follow: runtime.SetDefaultGOMAXPROCS}
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

// look looks at the limit again, if the last time was long ago.
func (b *processorBook) look(now time.Time) {
	b.mu.Lock()
	due := b.base == 0 || !b.once && now.Sub(b.looked) >= lookAgain
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
	b.base, b.looked = base, now
	b.tell()
}

// add gives the scheduler n more Ps, or takes some back.
func (b *processorBook) add(n int) {
	b.look(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extra += n
	b.tell()
}

// tell tells the scheduler how many Ps it may have, if that has changed. It is called with the mutex held.
func (b *processorBook) tell() {
	switch n := b.base + b.extra; {
	case b.extra > 0:
		if n != b.told {
			b.set(n)
			b.told = n
		}
	case b.told == 0:
	case b.fixed > 0:
		b.set(b.fixed)
		b.told = 0
	default:
		b.follow()
		b.told = 0
	}
}

// count returns how many processors the process may use, rounded up.
func (b *processorBook) count() int {
	b.look(time.Now())
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base
}

// Processors returns how many processors the program may use, rounded up: what GOMAXPROCS says, or the limit of its container, or
// what the machine has. It may change. Any goroutine may call it.
func Processors() int { return processors.count() }
