package file

import (
	"context"
	"time"
)

// watcher polls a file for changes. It compares times and sizes, and reads the file only when these may have changed: that works
// on every file system, through links, and with tools that replace the file or its directory.
type watcher struct {
	settler *settler      // static
	every   time.Duration // static
	begun   bool          // owned by the poller's goroutine
}

// poll waits for the time of the next poll, but not before the first, and returns the version of the content.
func (w *watcher) poll(ctx context.Context) (string, error) {
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
