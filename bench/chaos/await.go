//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errInVain is returned by await when the condition has not held in time.
var errInVain = errors.New("waited in vain")

// await asks again and again until the condition holds, fails, or has not held for too long.
func await(ctx context.Context, limit time.Duration, what string, condition func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for {
		holds, err := condition()
		switch {
		case holds:
			return nil
		case err != nil:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%w, for %v: %s", errInVain, limit, what)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, unless it is interrupted.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}
