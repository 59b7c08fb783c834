package app

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	trimInterval = 5 * time.Second
	trimAfter    = 1000 // connections and sessions
)

// trimmer gives memory back to the system after a burst of new connections or sessions is over, until ctx ends. Their
// handshakes leave garbage behind which the runtime would hold for as long as nobody allocates, and relaying does not:
// without it, ten thousand idle connections cost half as much again.
func (p *Proxy) trimmer(ctx context.Context) {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	trimmed, last := uint64(0), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		begun := p.sessions.Begun()
		begun += p.services.Dialed()
		if begun-last < trimAfter/10 && begun-trimmed >= trimAfter {
			debug.FreeOSMemory()
			releaseProgram()
			trimmed = begun
		}
		last = begun
	}
}
