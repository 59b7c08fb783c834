package chaos

import (
	"fmt"
	"sync"
	"time"
)

// ledger keeps what went wrong, and the events that led there. Its methods may be called from any goroutine.
type ledger struct {
	begin time.Time // static

	mu     sync.Mutex
	events []string          // guarded by mu: the last
	found  []*finding        // guarded by mu: one of each kind, in the order of the first
	counts map[[2]string]int // guarded by mu: by kind and place
}

// finding is something that must not happen: the first of its kind in its place.
type finding struct {
	kind, place string
	text        string
	events      []string // what went before
	times       int
}

const (
	maxEvents = 400 // remembered
	shown     = 15  // with a finding
)

func newLedger() *ledger { return &ledger{begin: time.Now(), counts: make(map[[2]string]int)} }

// event notes what was done.
func (l *ledger) event(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs  ", time.Since(l.begin).Seconds()) + fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == maxEvents {
		l.events = append(l.events[:0], l.events[maxEvents/2:]...)
	}
	l.events = append(l.events, line)
}

// wrong notes something that must not happen. Of those with the same place and kind, the first is kept in full, and the others are
// counted.
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

// findings returns all kinds of what went wrong, with how often.
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
