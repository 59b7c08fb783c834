package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// settler decides when a file has been written completely. Many programs write into a file instead of replacing it, so that it is
// empty or incomplete for a moment, and half of a configuration may be valid. So a file's content is accepted only when two
// readings, some time apart, are the same: bytes, size, time and file. A missing or unreadable file needs two readings as well.
//
// One reading is enough for content that is known to be complete: content that was accepted before, content that a command wrote
// (complete tells), and, in the first reading, a file that has not changed for a while.
type settler struct {
	path     string                    // static
	gap      time.Duration             // static: the time between the two readings
	complete func(version string) bool // static: reports whether a store wrote that version; may read a file

	mu      sync.Mutex
	counted *reading  // guarded by mu: the last accepted reading; nil before the first
	pending *reading  // guarded by mu: a reading that is not accepted yet
	since   time.Time // guarded by mu: the time of pending
	seen    bool      // guarded by mu: the file existed at some time
}

// reading is the result of reading the file once.
type reading struct {
	info    fs.FileInfo // nil when err is not
	data    []byte      // may be missing when size, time and file are those of an accepted reading
	version string      // of data
	err     error       // why nothing could be read
}

// same reports whether two readings are the same.
func (l *reading) same(other *reading) bool {
	if l.err != nil || other.err != nil {
		return l.err != nil && other.err != nil && l.err.Error() == other.err.Error()
	}
	return l.version == other.version && sameFacts(l.info, other.info)
}

func sameFacts(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// resolution is how long a file must stay unchanged before its time proves it: a change within the resolution of the file system's
// clock may not show.
const resolution = 2 * time.Second

func leftAlone(info fs.FileInfo) bool { return time.Since(info.ModTime()) > resolution }

// maxUnsettled bounds how long a file may keep changing before that is an error.
const maxUnsettled = 5 * time.Second

// version waits until two readings agree, and returns the version of the content. It is what the store polls: it compares times and sizes, and reads the
// file only when these may have changed. That works on every file system, through links, and with tools that replace the file or its directory.
func (s *settler) version(ctx context.Context) (string, error) {
	l, err := s.settled(ctx, false)
	if err != nil {
		return "", err
	}
	return l.version, nil
}

// settled waits until two readings agree, and returns the last one. For a file that never existed, the content is empty.
func (s *settler) settled(ctx context.Context, withData bool) (*reading, error) {
	deadline := time.Now().Add(maxUnsettled)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		counted := s.counted
		s.mu.Unlock()
		if withData {
			counted = nil
		}
		began := time.Now()
		l := lookAt(s.path, counted)
		if errors.Is(l.err, config.ErrMissing) && s.isNew() {
			return &reading{version: version(nil)}, checkDirectory(filepath.Dir(s.path))
		}
		wait := s.judge(l, began, time.Now())
		if wait > 0 && l.err == nil && s.complete(l.version) {
			s.count(l)
			wait = 0
		}
		switch {
		case wait <= 0:
			return l, l.err
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%s keeps changing: it was not the same in two reads within %v: write another file and rename it to this one", s.path, maxUnsettled)
		}
		if !tasks.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// judge returns how long to wait before the next reading; 0 if this one is accepted. It was read between began and ended.
func (s *settler) judge(l *reading, began, ended time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = s.seen || l.err == nil
	first := s.counted == nil && s.pending == nil
	switch {
	case s.counted != nil && l.err == nil && l.version == s.counted.version:
	case s.pending != nil && l.same(s.pending):
		if wait = s.gap - began.Sub(s.since); wait > 0 {
			return wait
		}
	case first && l.err == nil && leftAlone(l.info):
	default:
		s.pending, s.since = l, ended
		return s.gap
	}
	if l.err == nil {
		s.counted, s.pending = &reading{info: l.info, version: l.version}, nil
	}
	return 0
}

// count accepts a reading.
func (s *settler) count(l *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted, s.pending, s.seen = &reading{info: l.info, version: l.version}, nil, true
}

// checkDirectory returns why no file can be created in a directory.
func checkDirectory(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return fmt.Errorf("configuration directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("configuration directory: %s is not a directory", path)
	}
	return nil
}

// isNew reports whether the file never existed.
func (s *settler) isNew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.seen
}

// lookAt reads a file. It leaves the content out if size, time and file are those of an accepted reading; counted may be nil.
func lookAt(path string, counted *reading) *reading {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &reading{err: fmt.Errorf("%w: %s no longer exists", config.ErrMissing, path)}
	case err != nil:
		return &reading{err: fmt.Errorf("configuration file: %w", err)}
	case info.IsDir():
		return &reading{err: fmt.Errorf("configuration file: %s is a directory: use a file", path)}
	case !info.Mode().IsRegular(): // opening a pipe would wait for a writer
		return &reading{err: fmt.Errorf("configuration file: %s is not a regular file (%v)", path, info.Mode().Type())}
	case info.Size() > MaxFile:
		return &reading{err: fmt.Errorf("configuration file: %s has %d bytes: use at most %d", path, info.Size(), MaxFile)}
	case counted != nil && sameFacts(counted.info, info) && leftAlone(info):
		return &reading{info: info, version: counted.version}
	}
	file, err := os.Open(path)
	if err != nil {
		return &reading{err: fmt.Errorf("configuration file: %w", err)}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1)) // it may have grown
	if err == nil {
		info, err = file.Stat()
	}
	if err != nil {
		return &reading{err: fmt.Errorf("configuration file: %w", err)}
	}
	return &reading{info: info, data: data, version: version(data)}
}
