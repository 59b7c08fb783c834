package kit

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxTraced is how many of the latest events a trace has at most.
const maxTraced = 200

// Trace is what a session has sent, received and done last, for people to read. Its methods may be called from any goroutine. The zero value is ready.
type Trace struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	lost  int      // guarded by mu: older events that are no longer kept
}

// Add adds an event.
func (t *Trace) Add(format string, args ...any) {
	line := time.Now().Format("  15:04:05.000000  ") + fmt.Sprintf(format, args...) + "\n"
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == maxTraced { // drop the older half
		t.lines = append(t.lines[:0], t.lines[maxTraced/2:]...)
		t.lost += maxTraced / 2
	}
	t.lines = append(t.lines, line)
}

// String returns the events, a line for each.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	earlier := ""
	if t.lost > 0 {
		earlier = fmt.Sprintf("  %d earlier events\n", t.lost)
	}
	return earlier + strings.Join(t.lines, "")
}
