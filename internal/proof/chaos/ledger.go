package chaos

import (
	"fmt"
	"sync"
	"time"
)

// ledger keeps the findings and the events before them. Its methods may be called from any goroutine.
type ledger struct {
	begin time.Time // static

	mu     sync.Mutex
	events []string          // guarded by mu: the latest
	found  []*finding        // guarded by mu: one for each place and kind, in the order of their first events
	counts map[[2]string]int // guarded by mu: by kind and place
}

// finding is the first event of its kind in its place that must not happen.
type finding struct {
	kind, place string
	text        string
	events      []string // the events before it
	times       int
}

const (
	maxEvents = 400 // how many events are kept
	shown     = 15  // how many of them a finding shows
)

func newLedger() *ledger { return &ledger{begin: time.Now(), counts: make(map[[2]string]int)} }

// event records an event.
func (l *ledger) event(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs  ", time.Since(l.begin).Seconds()) + fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == maxEvents {
		l.events = append(l.events[:0], l.events[maxEvents/2:]...)
	}
	l.events = append(l.events, line)
}

// wrong records something that must not happen. It keeps the first event of a place and kind in full, and counts the others.
func (l *ledger) wrong(place, kind, format string, args ...any) {
	key := [2]string{kind, place}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[key]++; l.counts[key] > 1 {
		return
	}
	last := l.events[max(0, len(l.events)-shown):]
	l.found = append(l.found, &finding{
		kind: kind, place: place, events: append([]string(nil), last...),
		text: fmt.Sprintf("at %.3fs: ", time.Since(l.begin).Seconds()) + fmt.Sprintf(format, args...),
	})
}

// findings returns all findings with their counts.
func (l *ledger) findings() []finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []finding
	for _, f := range l.found {
		f.times = l.counts[[2]string{f.kind, f.place}]
		all = append(all, *f)
	}
	return all
}
