//go:build linux

package fleetproof

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// journal keeps what happened and what must not happen. Its methods may be called from any goroutine.
type journal struct {
	begin time.Time // static
	out   io.Writer // static: gets each line as it comes; nil for nobody

	mu         sync.Mutex
	lines      []string       // guarded by mu: the latest
	violations []Violation    // guarded by mu: the first of each kind
	counts     map[string]int // guarded by mu: violations by kind
	violated   chan struct{}  // closed by the first violation
}

// Violation is something that must not happen.
type Violation struct {
	Kind  string
	Text  string
	Times int
	// Before is what happened before.
	Before []string
	// History is what the server saw, if it is about one.
	History []string
}

const (
	maxLines = 400 // how many lines are kept
	shown    = 20  // how many of them a violation shows
)

func newJournal(out io.Writer) *journal {
	return &journal{begin: time.Now(), out: out, counts: make(map[string]int), violated: make(chan struct{})}
}

func (j *journal) stamp(at time.Time) string { return fmt.Sprintf("%8.3fs", at.Sub(j.begin).Seconds()) }

// event records what happened.
func (j *journal) event(format string, args ...any) {
	line := j.stamp(time.Now()) + "  " + fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == maxLines {
		j.lines = append(j.lines[:0], j.lines[maxLines/2:]...)
	}
	j.lines = append(j.lines, line)
	if j.out != nil {
		fmt.Fprintln(j.out, line)
	}
}

// violation records something that must not happen: the first of its kind in full, the others as a number.
func (j *journal) violation(kind string, history []string, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.mu.Lock()
	j.counts[kind]++
	first := j.counts[kind] == 1
	if first {
		before := append([]string(nil), j.lines[max(0, len(j.lines)-shown):]...)
		j.violations = append(j.violations, Violation{Kind: kind, Text: text, Before: before, History: history})
		if len(j.violations) == 1 {
			close(j.violated)
		}
	}
	j.mu.Unlock()
	if first {
		j.event("VIOLATION: %s: %s", kind, text)
	}
}

// found returns all violations with their counts.
func (j *journal) found() []Violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := append([]Violation(nil), j.violations...)
	for i := range all {
		all[i].Times = j.counts[all[i].Kind]
	}
	return all
}
