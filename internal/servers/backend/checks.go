package backend

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// This file has what probes and canaries share: a backend is checked again and again, and several results in a row make a verdict.

// checker is the goroutine that checks a backend by one setting. When the setting changes, the next goroutine waits until the one before
// has ended, so that verdicts stay in order and the caller need not wait. It is guarded by Backend.updating.
type checker struct {
	stop context.CancelFunc // nil before the first goroutine
	done chan struct{}
}

// replace ends the goroutine, without waiting for it, and starts another one, which calls run when the one before has ended.
func (c *checker) replace(parent context.Context, run func(context.Context)) {
	before := *c
	ctx, stop := context.WithCancel(parent)
	done := make(chan struct{})
	*c = checker{stop, done}
	go func() {
		defer close(done)
		if before.stop != nil {
			before.stop()
			<-before.done
		}
		run(ctx)
	}()
}

// awaitChecks waits until neither a probe nor a canary is running, nor the capacity is being read, or ctx ends. The worker must have stopped.
func (b *Backend) awaitChecks(ctx context.Context) {
	b.updating.Lock()
	last := [...]checker{b.probing, b.playing, b.reading}
	b.updating.Unlock()
	for _, c := range last {
		if c.stop == nil {
			continue
		}
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	}
}

// repeat calls check until ctx ends, with the pause in between that it returns, plus or minus a fifth.
func repeat(ctx context.Context, check func() (interval time.Duration)) {
	for {
		interval := check()
		if ctx.Err() != nil || !tasks.Sleep(ctx, interval*4/5+rand.N(max(interval*2/5, 1))) {
			return
		}
	}
}

// verdict is what attempts have shown about a server.
type verdict struct {
	fall, rise int // how many in a row change it
	up, known  bool
	agreeing   int // attempts in a row that speak for a change
}

// changes notes an attempt, and reports whether it changes the verdict. The first success is a verdict by itself, so that a backend that
// works gets its clients at once.
func (v *verdict) changes(well bool) bool {
	if v.known && well == v.up {
		v.agreeing = 0
		return false
	}
	v.agreeing++
	if well && v.known && v.agreeing < v.rise || !well && v.agreeing < v.fall {
		return false
	}
	v.up, v.known, v.agreeing = well, true, 0
	return true
}

// note notes an attempt, which has failed if err is not nil, and tells the verdict if it has changed.
func (v *verdict) note(err error, tell func(up bool, reason string)) {
	if !v.changes(err == nil) {
		return
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	tell(v.up, reason)
}

// setDefault sets a setting that is not above 0.
func setDefault[T int | time.Duration](setting *T, value T) {
	if *setting <= 0 {
		*setting = value
	}
}
