package load

import "sync/atomic"

// latch opens after count was called a given number of times. Any goroutine may use it.
type latch struct {
	left atomic.Int64
	open chan struct{} // closed when left is 0
}

func newLatch(things int) *latch {
	l := &latch{open: make(chan struct{})}
	l.left.Store(int64(things))
	if things == 0 {
		close(l.open)
	}
	return l
}

// count counts one call. More calls than the latch waits for have no effect.
func (l *latch) count() {
	if l.left.Add(-1) == 0 {
		close(l.open)
	}
}
