package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many lines of a kind are logged: linesAtOnce, and linesPerSecond after that. A crowd that is turned away must not fill a disk.
const (
	linesAtOnce    = 20
	linesPerSecond = 10
	// reportLeftOut is how long lines are left out before one line reports how many.
	reportLeftOut = 10 * time.Second
)

// lineLimiter limits log lines by kind, and reports in one line how many were left out. It may be used from any goroutine.
type lineLimiter[K cmp.Ordered] struct {
	report func(count uint64, byKind []string) // static: writes the line about those left out

	mu       sync.Mutex
	limiters map[K]*rate.Limiter // guarded by mu
	leftOut  map[K]uint64        // guarded by mu: since the last report
	timer    *time.Timer         // guarded by mu; nil unless lines were left out
	closed   bool                // guarded by mu
}

// allow reports whether there may be a line of that kind now. Otherwise it counts it.
func (l *lineLimiter[K]) allow(kind K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.limiters[kind]
	if limiter == nil {
		limiter = rate.NewLimiter(linesPerSecond, linesAtOnce)
		if l.limiters == nil {
			l.limiters = make(map[K]*rate.Limiter)
		}
		l.limiters[kind] = limiter
	}
	if limiter.AllowN(now, 1) {
		return true
	}
	if l.leftOut == nil {
		l.leftOut = make(map[K]uint64)
	}
	l.leftOut[kind]++
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(reportLeftOut, l.flush)
	}
	return false
}

// flush reports all that was left out.
func (l *lineLimiter[K]) flush() {
	l.mu.Lock()
	leftOut := l.leftOut
	l.leftOut, l.timer = nil, nil
	l.mu.Unlock()
	count, byKind := uint64(0), make([]string, 0, len(leftOut))
	for _, kind := range slices.Sorted(maps.Keys(leftOut)) {
		count += leftOut[kind]
		byKind = append(byKind, fmt.Sprintf("%v: %d", kind, leftOut[kind]))
	}
	if count > 0 {
		l.report(count, byKind)
	}
}

// close reports what was left out, and starts no further timer.
func (l *lineLimiter[K]) close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.flush()
}
