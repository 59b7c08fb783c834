package kit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Wait waits for a time. It returns the error of ctx if that ends first.
func Wait(ctx context.Context, d time.Duration) error {
	if !WaitOr(ctx, d, nil) {
		return ctx.Err()
	}
	return nil
}

// WaitOr waits for a time. It returns false if ctx ends first, or finish is closed.
func WaitOr(ctx context.Context, d time.Duration, finish <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-finish:
	}
	return false
}

// Crew is goroutines that work until they are to end. One goroutine calls its methods.
type Crew struct {
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// NewCrew returns a crew without goroutines, which ends when ctx does.
func NewCrew(ctx context.Context) *Crew {
	c := new(Crew)
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// Go starts a goroutine, whose context ends with the crew.
func (c *Crew) Go(work func(ctx context.Context)) { c.tasks.Go(func() { work(c.ctx) }) }

// Wait waits until the goroutines have ended by themselves.
func (c *Crew) Wait() { c.tasks.Wait() }

// Stop ends the goroutines, and does not wait for them. Any goroutine may call it.
func (c *Crew) Stop() { c.stop() }

// End ends the goroutines and waits for them. Further calls do nothing.
func (c *Crew) End() {
	c.stop()
	c.tasks.Wait()
}

// Between draws a time from least to most.
func Between(dice *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(dice.Int64N(int64(most-least)+1))
}

// Quantile returns the time that a share q, from 0 to 1, of sorted times does not exceed; 0 for no times.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
