package pool

// heap keeps items so that the first in an order can be found at once, and one whose place in the order has changed can be moved in
// logarithmic time. Each item knows its index, so an item is in one heap of a kind at a time; without index, items are only pushed and popped. It
// is guarded by the group's mutex.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool // static: the order
	index  func(T) *int      // static: where an item keeps its index; nil if it does not know it
}

// best returns the first item; ok is false if there is none.
func (h *heap[T]) best() (best T, ok bool) {
	if len(h.items) == 0 {
		return best, false
	}
	return h.items[0], true
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.note(len(h.items) - 1)
	h.up(len(h.items) - 1)
}

// pop takes out the first item, which must exist.
func (h *heap[T]) pop() (best T) {
	best = h.items[0]
	h.removeAt(0)
	return best
}

// remove takes out an item, which must be in the heap.
func (h *heap[T]) remove(item T) { h.removeAt(*h.index(item)) }

func (h *heap[T]) removeAt(i int) {
	last := len(h.items) - 1
	h.swap(i, last)
	clear(h.items[last:]) // keep nothing in memory
	h.items = h.items[:last]
	if i < last && !h.down(i) {
		h.up(i)
	}
}

// fix moves an item, which must be in the heap, to its place after that has changed.
func (h *heap[T]) fix(item T) {
	if len(h.items) > 1 && !h.down(*h.index(item)) {
		h.up(*h.index(item))
	}
}

// sort restores the order after the places of any items have changed.
func (h *heap[T]) sort() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down moves an item towards the end, and reports whether it has moved.
func (h *heap[T]) down(i int) bool {
	begun := i
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.items); child++ {
			if h.before(h.items[child], h.items[first]) {
				first = child
			}
		}
		if first == i {
			return i > begun
		}
		h.swap(i, first)
		i = first
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.note(i)
	h.note(j)
}

// note has the item at i know its index.
func (h *heap[T]) note(i int) {
	if h.index != nil {
		*h.index(h.items[i]) = i
	}
}
