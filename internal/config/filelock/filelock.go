// Package filelock lets one process at a time do something with a file, by a lock on a file beside it that the operating
// system gives up when the process ends.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock waits until it has the lock of a file, which is one on the file path.lock, or ctx ends. It also keeps out others in
// the same process. The lock's file stays, since removing it would let two have the lock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	const again = 10 * time.Millisecond
	for {
		locked, err := tryLock(file)
		if locked {
			return func() { _ = file.Close() }, nil
		}
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", file.Name(), ctx.Err())
		}
	}
}
