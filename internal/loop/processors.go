package loop

import (
	"runtime"
	"sync"
)

// processors keeps the book of the Ps that the scheduler has beyond what it was told to have, because awake loops keep
// theirs while they wait (see driver.wait). There is one for the process, as there is one scheduler.
var processors struct {
	mu    sync.Mutex
	extra int // guarded by mu
}

// addProcessors gives the scheduler n more Ps, or takes some back.
func addProcessors(n int) {
	if !keepsProcessor || n == 0 {
		return
	}
	processors.mu.Lock()
	defer processors.mu.Unlock()
	processors.extra += n
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}

// Processors returns how many processors the program is to use: GOMAXPROCS without what awake loops have been given beyond
// it. Any goroutine may call it.
func Processors() int {
	processors.mu.Lock()
	defer processors.mu.Unlock()
	return runtime.GOMAXPROCS(0) - processors.extra
}
