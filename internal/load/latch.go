package load

import "sync/atomic"

// latch opens when a number of things have happened. Any goroutine may use it.
type latch struct {
	left atomic.Int64
	open chan struct{} // closed when nothing is left
}

func newLatch(things int) *latch {
	l := &latch{open: make(chan struct{})}
	l.left.Store(int64(things))
	if things == 0 {
		close(l.open)
	}
	return l
}

// count notes that one of the things has happened.
func (l *latch) count() {
	if l.left.Add(-1) == 0 {
		close(l.open)
	}
}
