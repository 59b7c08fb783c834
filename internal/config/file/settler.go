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
)

// settler decides what a file says. Many programs do not replace a file but write into it, so that it is empty or half there for a
// moment, and half of a configuration may well be a valid one. So what somebody wrote counts only when two looks, some time apart,
// have seen the same: the same bytes, size, time and file. That a file is missing, or cannot be read, needs two looks as well.
//
// One look is enough for content that is known to be whole: what counted before, what a command wrote (complete knows), and at
// the first look what nobody has touched for a while.
type settler struct {
	path     string                    // static
	gap      time.Duration             // static: between the two looks
	complete func(version string) bool // static: tells whether a store wrote that version, which may need a file to be read

	mu      sync.Mutex
	counted *look     // guarded by mu: what the file said last; nil before it said anything
	pending *look     // guarded by mu: what one look saw that does not count yet
	since   time.Time // guarded by mu: when pending was seen first
	seen    bool      // guarded by mu: there was a file at some time
}

// look is what one look at a file saw.
type look struct {
	info    fs.FileInfo // nil when err is not
	data    []byte      // may be left out when the facts are those of a look that counted
	version string      // of data
	err     error       // why nothing could be read
}

// same tells whether two looks saw the same.
func (l *look) same(other *look) bool {
	if l.err != nil || other.err != nil {
		return l.err != nil && other.err != nil && l.err.Error() == other.err.Error()
	}
	return l.version == other.version && sameFacts(l.info, other.info)
}

func sameFacts(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// resolution is how long a file must be left alone before its time tells that it was: what is written within the resolution of
// the file system's clock may not show.
const resolution = 2 * time.Second

func leftAlone(info fs.FileInfo) bool { return time.Since(info.ModTime()) > resolution }

// maxUnsettled bounds how long a file may keep changing before that is an error.
const maxUnsettled = 5 * time.Second

// version waits until two looks agree, and returns the version of what the file says.
func (s *settler) version(ctx context.Context) (string, error) {
	l, err := s.settled(ctx, false)
	if err != nil {
		return "", err
	}
	return l.version, nil
}

// settled waits until two looks agree, and returns what they saw. Where there never was a file, that is nothing at all.
func (s *settler) settled(ctx context.Context, withData bool) (*look, error) {
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
			return &look{version: version(nil)}, checkDirectory(filepath.Dir(s.path))
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// judge returns how long to wait until the next look may make this one count; 0 if it does. The look was taken between two times.
func (s *settler) judge(l *look, began, ended time.Time) (wait time.Duration) {
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
		s.counted, s.pending = &look{info: l.info, version: l.version}, nil
	}
	return 0
}

// count takes a look for what the file says.
func (s *settler) count(l *look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted, s.pending, s.seen = &look{info: l.info, version: l.version}, nil, true
}

// checkDirectory returns why no file can be made in a directory.
func checkDirectory(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return fmt.Errorf("configuration directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("configuration directory: %s is not a directory", path)
	}
	return nil
}

// isNew tells whether there never was a file.
func (s *settler) isNew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.seen
}

// lookAt looks at a file. Its content is read unless its facts are those of a look that counted, which may be nil.
func lookAt(path string, counted *look) *look {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &look{err: fmt.Errorf("%w: %s no longer exists", config.ErrMissing, path)}
	case err != nil:
		return &look{err: fmt.Errorf("configuration file: %w", err)}
	case info.IsDir():
		return &look{err: fmt.Errorf("configuration file: %s is a directory: use a file", path)}
	case !info.Mode().IsRegular(): // opening a pipe would wait for a writer
		return &look{err: fmt.Errorf("configuration file: %s is not a regular file (%v)", path, info.Mode().Type())}
	case info.Size() > MaxFile:
		return &look{err: fmt.Errorf("configuration file: %s has %d bytes: use at most %d", path, info.Size(), MaxFile)}
	case counted != nil && sameFacts(counted.info, info) && leftAlone(info):
		return &look{info: info, version: counted.version}
	}
	file, err := os.Open(path)
	if err != nil {
		return &look{err: fmt.Errorf("configuration file: %w", err)}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1)) // it may have grown
	if err == nil {
		info, err = file.Stat()
	}
	if err != nil {
		return &look{err: fmt.Errorf("configuration file: %w", err)}
	}
	return &look{info: info, data: data, version: version(data)}
}
