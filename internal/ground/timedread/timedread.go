// Package timedread reads files for a limited time: one on a mount that hangs must not hold up what else a goroutine has to do. Any package may
// import it.
package timedread

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Timeout is how long a file may take.
const Timeout = 5 * time.Second

// Do returns what read returns, which reads the file of that path or asks the file system about it, and is called on another goroutine. If it does not
// return in time, the error is [os.ErrDeadlineExceeded]. Each file is read once at a time in this process, so that one that hangs takes only one thread.
// Any goroutine may call Do.
func Do[T any](path string, read func() (T, error)) (T, error) {
	var content, none T
	var err error
	if late := all.do(path, func() { content, err = read() }); late != nil {
		return none, late // read may still write
	}
	return content, err
}

// all are those of the process: a file hangs for all that read it.
var all = reads{underWay: make(map[string]*underWay)}

// reads are those that have not ended.
type reads struct {
	mu       sync.Mutex
	underWay map[string]*underWay // guarded by mu: by path
}

// underWay is a read that has not ended.
type underWay struct {
	begun time.Time
	done  chan struct{} // closed when it has ended
}

// do calls read, unless it returns an error: then read has not returned in time, or was not called.
func (r *reads) do(path string, read func()) error {
	for {
		own := false
		r.mu.Lock()
		one := r.underWay[path]
		if one == nil {
			own, one = true, &underWay{time.Now(), make(chan struct{})}
			r.underWay[path] = one
			go func() {
				read()
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.underWay, path)
				close(one.done)
			}()
		}
		r.mu.Unlock()
		select {
		case <-one.done:
		case <-time.After(time.Until(one.begun.Add(Timeout))):
			return fmt.Errorf("%s: %w", path, os.ErrDeadlineExceeded)
		}
		if own {
			return nil
		}
	}
}
