// Package tasks starts goroutines, wakes them, has them sleep, and waits for their ends. Any package may import it.
package tasks

import "sync"

// Group is a set of goroutines that End waits for. Unlike with a [sync.WaitGroup], a goroutine may be started at any time, even when no other
// runs; once End was called, it is refused. The zero value is ready.
type Group struct {
	mu      sync.Mutex
	running int           // guarded by mu
	ended   chan struct{} // guarded by mu; nil until End is called, closed when no task runs
}

// Go calls f in a new goroutine. It returns false, and does not call f, once End was called.
func (t *Group) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return false
	}
	t.running++
	go func() {
		defer t.done()
		f()
	}()
	return true
}

func (t *Group) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 && t.ended != nil {
		close(t.ended)
	}
}

// End refuses further tasks and waits for those that run.
func (t *Group) End() {
	t.mu.Lock()
	if t.ended == nil {
		t.ended = make(chan struct{})
		if t.running == 0 {
			close(t.ended)
		}
	}
	ended := t.ended
	t.mu.Unlock()
	<-ended
}
