package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// watcher looks for changes of a file. It compares times and sizes, and reads the file only when these say that it may have
// changed: that works on every file system, through links, and with tools that replace the file or its directory.
type watcher struct {
	path    string
	every   time.Duration
	known   fs.FileInfo
	version string
}

func newWatcher(path string, every time.Duration) *watcher { return &watcher{path: path, every: every} }

// look waits for a change, or for the time between two looks, and returns the file's version.
func (w *watcher) look(ctx context.Context) (string, error) {
	if w.version != "" {
		timer := time.NewTimer(w.every)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	info, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		w.known, w.version = nil, version(nil)
		return w.version, nil
	}
	if err != nil {
		return "", err
	}
	if w.settled(info) {
		return w.version, nil
	}
	data, err := os.ReadFile(w.path)
	if err != nil {
		return "", err
	}
	w.known, w.version = info, version(data)
	return w.version, nil
}

// settled tells whether a file with these facts is the one that was read. What was written within the resolution of the
// file system's clock may not show.
func (w *watcher) settled(info fs.FileInfo) bool {
	const resolution = 2 * time.Second
	return w.known != nil && os.SameFile(w.known, info) && w.known.Size() == info.Size() &&
		w.known.ModTime().Equal(info.ModTime()) && time.Since(info.ModTime()) > resolution
}
