package pool

// line is the part of the queue that waits for connections of one variant, in the order in which the clients came. All of it is
// guarded by the group's mutex.
type line[C any] struct {
	variant     string
	first, last *Waiter[C]

	// For queue.beginCount.
	count  uint64 // the count that coming belongs to
	coming int    // connections that are being dialed for these clients
}

// line returns the line for a variant, or nil when nobody waits for it.
func (q *queue[C]) line(variant string) *line[C] {
	if variant == "" {
		return &q.base
	}
	return q.lines[variant]
}

// join puts a client at the end of its line.
func (q *queue[C]) join(w *Waiter[C]) {
	l := q.line(w.Variant)
	if l == nil {
		if q.lines == nil {
			q.lines = make(map[string]*line[C])
		}
		l = &line[C]{variant: w.Variant}
		q.lines[w.Variant] = l
	}
	w.line, w.before = l, l.last
	if l.last != nil {
		l.last.after = w
	} else {
		l.first = w
	}
	l.last = w
}

// quit takes a client out of its line.
func (q *queue[C]) quit(w *Waiter[C]) {
	l := w.line
	if w.before != nil {
		w.before.after = w.after
	} else {
		l.first = w.after
	}
	if w.after != nil {
		w.after.before = w.before
	} else {
		l.last = w.before
	}
	w.before, w.after, w.line = nil, nil, nil
	if l.first == nil && l != &q.base {
		delete(q.lines, l.variant)
	}
}

// beginCount begins to count the connections that are being dialed for those who wait.
func (q *queue[C]) beginCount() { q.counts++ }

// count notes that connections of a variant are being dialed.
func (q *queue[C]) count(variant string, coming int) {
	if l := q.line(variant); l != nil {
		q.counted(l).coming += coming
	}
}

// covers reports whether one of the counted connections is for the client, and uses it up. It is called for the clients in their order.
func (q *queue[C]) covers(w *Waiter[C]) bool {
	l := q.counted(w.line)
	if l.coming == 0 {
		return false
	}
	l.coming--
	return true
}

func (q *queue[C]) counted(l *line[C]) *line[C] {
	if l.count != q.counts {
		l.count, l.coming = q.counts, 0
	}
	return l
}
