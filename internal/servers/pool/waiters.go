package pool

// waiters is a list of clients that wait, in the order in which they came. Each client is in two of them. It is guarded by the group's mutex.
type waiters[C any] struct{ first, last *Waiter[C] }

// neighbours are those of a client in one of its lists; nil at the ends.
type neighbours[C any] struct{ ahead, behind *Waiter[C] }

// The lists that a client is in.
const (
	ofTenant  = iota // all clients of its tenant
	ofVariant        // those of them that need the same variant
)

// insert puts a client at the end of the list or, if it is back, where it was. which says which of its lists this is.
func (l *waiters[C]) insert(w *Waiter[C], which int) {
	var next *Waiter[C] // the one that comes behind it
	if w.Back {
		for next = l.first; next != nil && next.precedes(w); next = next.in[which].behind {
		}
	}
	ahead := l.last
	if next != nil {
		ahead = next.in[which].ahead
		next.in[which].ahead = w
	} else {
		l.last = w
	}
	if ahead != nil {
		ahead.in[which].behind = w
	} else {
		l.first = w
	}
	w.in[which] = neighbours[C]{ahead, next}
}

// precedes reports whether a client that waits stays before one that is back.
func (w *Waiter[C]) precedes(back *Waiter[C]) bool {
	return w.ticket < back.ticket || w.ticket == back.ticket && w.Back
}

// remove takes a client out of the list.
func (l *waiters[C]) remove(w *Waiter[C], which int) {
	n := w.in[which]
	if n.ahead != nil {
		n.ahead.in[which].behind = n.behind
	} else {
		l.first = n.behind
	}
	if n.behind != nil {
		n.behind.in[which].ahead = n.ahead
	} else {
		l.last = n.ahead
	}
	w.in[which] = neighbours[C]{}
}
