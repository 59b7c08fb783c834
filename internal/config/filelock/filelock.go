// Package filelock lets one process at a time do something with a file, by a lock on a file beside it that the operating
// system gives up when the process ends.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// pollInterval is how often Lock tries again.
const pollInterval = 10 * time.Millisecond

// Lock waits until it has the lock of a file, which is one on the file path.lock, or ctx ends. It also keeps out others in
// the same process. The lock's file stays, since removing it would let two have the lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	lock, err := open(path)
	if err != nil {
		return nil, err
	}
	_, err = lock.TryLockContext(ctx, pollInterval)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, fmt.Errorf("waiting for the lock %s: %w", lock, err)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// TryLock takes the lock of a file if no other process has it, and reports whether it did. The error is that there can be no lock.
func TryLock(path string) (unlock func(), ok bool, err error) {
	lock, err := open(path)
	if err != nil {
		return nil, false, err
	}
	if ok, err = lock.TryLock(); err != nil {
		return nil, false, fmt.Errorf("locking %s: %w", lock, err)
	}
	return func() { _ = lock.Unlock() }, ok, nil
}

// open makes the lock's file if it is missing. A symbolic link to a file has the same lock as the file.
func open(path string) (*flock.Flock, error) {
	if _, err := os.Stat(path); err == nil {
		file, err := fileowner.Follow(path)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		path = file
	}
	lock := flock.New(path+".lock", flock.SetFlag(os.O_RDWR|fileowner.NoFollow))
	file, err := fileowner.Open(lock.Path(), 0o640) // flock would make root's file, wherever a link leads
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock, err)
	}
	_ = file.Close()
	return lock, nil
}
