package app

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	trimInterval = 500 * time.Millisecond
	trimAfter    = 1000 // connections and sessions
	trimCalm     = 50   // in an interval, at most, and in two of them: the burst is over, and so are its handshakes
)

// trimmer gives memory back to the system after a burst of new connections or sessions is over, until ctx ends. Their
// handshakes leave garbage behind which the runtime would hold for as long as nobody allocates, and relaying does not:
// without it, ten thousand idle connections cost half as much again.
func (p *Proxy) trimmer(ctx context.Context) {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	trimmed, last, calm := uint64(0), uint64(0), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		begun := p.sessions.Begun()
		begun += p.services.Dialed()
		if calm++; begun-last > trimCalm {
			calm = 0
		}
		if calm >= 2 && begun-trimmed >= trimAfter {
			debug.FreeOSMemory()
			releaseProgram()
			trimmed = begun
		}
		last = begun
	}
}
