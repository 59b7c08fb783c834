package tasks

import (
	"context"
	"time"
)

// Wake sends to a channel of size one, whose receiver looks what there is to do. It never blocks: many calls in a row are one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep waits for some time; not at all if that is 0 or less. It returns false if ctx ends before that.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Every is what a loop ranges over whose body is to run after each interval, until ctx ends.
func Every(ctx context.Context, interval time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if !yield() {
					return
				}
			}
		}
	}
}
