package app

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

const (
	trimInterval    = 500 * time.Millisecond
	trimReplayAfter = 60   // ticks after which memory for failover that is not in use is given back
	trimAfter       = 1000 // connections and sessions
	declineAfter    = 20   // ticks between two times at which a process that drains gives memory back
	trimCalm        = 50   // in an interval, at most, and in two of them: the burst is over, and so are its handshakes
)

// trimmer gives memory back to the system after a burst of new connections or sessions is over, until ctx ends. Their
// handshakes leave garbage behind which the runtime would hold for as long as nothing is allocated, and relaying does not:
// without it, ten thousand idle connections cost half as much again.
func (p *Proxy) trimmer(ctx context.Context) {
	var b burst
	var d decline
	trimReplay := everyNth(trimReplayAfter, p.replay.Trim)
	for tasks.Sleep(ctx, trimInterval) {
		trimReplay()
		less := p.end.Load() != nil && d.isDue(p.sessions.Active())
		if b.isOver(p.sessions.Begun()+p.services.Dialed()) || less {
			debug.FreeOSMemory()
			releaseProgram()
		}
	}
}

// decline detects that a process that drains, perhaps for hours, needs much less memory than it did. It is owned by the trimmer.
type decline struct {
	begun bool  // memory was given back that only a process needs that takes clients
	had   int64 // sessions when memory was last given back, or when the drain began
	ticks int   // since then
}

// isDue tells once that the drain has begun, since idle connections are closed then, and after that each time when a quarter of the sessions
// has ended, but not often. It is called at each tick of a drain.
func (d *decline) isDue(sessions int64) bool {
	d.ticks++
	d.had = max(d.had, sessions)
	if d.ticks < declineAfter || d.begun && (sessions > d.had*3/4 || d.had == 0) {
		return false
	}
	d.begun, d.had, d.ticks = true, sessions, 0
	return true
}

// burst detects bursts of new connections and sessions from their number at each tick. It is owned by the trimmer.
type burst struct {
	last    uint64 // at the last tick
	trimmed uint64 // when one was over
	calm    int    // ticks in a row with hardly any new ones
}

// isOver tells, once, that a burst is over. begun counts the connections and sessions that there have been.
func (b *burst) isOver(begun uint64) bool {
	if b.calm++; begun-b.last > trimCalm {
		b.calm = 0
	}
	b.last = begun
	if b.calm < 2 || begun-b.trimmed < trimAfter {
		return false
	}
	b.trimmed = begun
	return true
}

// everyNth returns a function that calls f each nth time that it is called.
func everyNth(n int, f func()) func() {
	count := 0
	return func() {
		if count++; count == n {
			count = 0
			f()
		}
	}
}
