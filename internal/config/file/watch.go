package file

import (
	"context"
	"time"
)

// watcher looks for changes of a file. It compares times and sizes, and reads the file only when these say that it may have
// changed: that works on every file system, through links, and with tools that replace the file or its directory.
type watcher struct {
	settler *settler      // static
	every   time.Duration // static
	begun   bool          // owned by the poller's goroutine
}

// look waits for the time between two looks, but not before the first, and returns the version of what the file says.
func (w *watcher) look(ctx context.Context) (string, error) {
	if w.begun {
		timer := time.NewTimer(w.every)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	w.begun = true
	return w.settler.version(ctx)
}
