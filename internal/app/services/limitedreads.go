package services

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// fileTimeout is how long a change of the configuration waits for a file: one on a mount that hangs must not stop all changes.
const fileTimeout = 5 * time.Second

// limitedReads reads files for a limited time, and each once at a time, so that one on a mount that hangs takes only one thread. Any goroutine may
// use it.
type limitedReads struct {
	mu       sync.Mutex
	underWay map[string]*limitedRead // guarded by mu: by path
}

// limitedRead is one that is under way.
type limitedRead struct {
	begun time.Time
	done  chan struct{} // closed when it has ended
}

// files are those of the process: a file hangs for all that read it.
var files = limitedReads{underWay: make(map[string]*limitedRead)}

// do calls read, which reads the file, on another goroutine. If do returns an error, read has not returned in time, or was not called.
func (l *limitedReads) do(path string, read func()) error {
	for {
		own := false
		l.mu.Lock()
		r := l.underWay[path]
		if r == nil {
			own, r = true, &limitedRead{time.Now(), make(chan struct{})}
			l.underWay[path] = r
			go func() {
				read()
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.underWay, path)
				close(r.done)
			}()
		}
		l.mu.Unlock()
		select {
		case <-r.done:
		case <-time.After(time.Until(r.begun.Add(fileTimeout))):
			return fmt.Errorf("%s: %w", path, os.ErrDeadlineExceeded)
		}
		if own {
			return nil
		}
	}
}
