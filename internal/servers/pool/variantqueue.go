package pool

// line is the clients that wait for connections of one variant. All of it is guarded by the group's mutex.
type line[C any] struct {
	variant string
	lanes   heap[*lane[C]] // one for each tenant of these clients; the one to be served next is first

	// For queue.beginCount.
	count  uint64 // the count that coming belongs to
	coming int    // connections that are being dialed for these clients
}

// lane is the clients of one tenant in a line, in the order in which they came. All of it is guarded by the group's mutex.
type lane[C any] struct {
	tenant      *tenant[C]
	line        *line[C]
	first, last *Waiter[C]
	inLine      int // its index in line.lanes
	inContended int // its index in tenant.contended, if other tenants wait in the line
}

// initLine makes a line ready for use.
func initLine[C any](l *line[C], variant string) {
	l.variant = variant
	l.lanes.before = laneBefore[C]
	l.lanes.index = func(l *lane[C]) *int { return &l.inLine }
}

// laneBefore is the order in which the lanes of all lines are served: as their tenants, and the clients of one tenant in the order in
// which they came.
func laneBefore[C any](a, b *lane[C]) bool {
	if a.tenant == b.tenant {
		return a.first.ticket < b.first.ticket
	}
	return a.tenant.ranked.before(&b.tenant.ranked, a.first.ticket, b.first.ticket)
}

// line returns the line for a variant, or nil when nobody waits for it.
func (q *queue[C]) line(variant string) *line[C] {
	if variant == "" {
		return &q.base
	}
	return q.lines[variant]
}

// lane returns the tenant's clients that wait for a variant, or nil when none does.
func (t *tenant[C]) lane(variant string) *lane[C] {
	if variant == "" {
		if t.base.first == nil {
			return nil
		}
		return &t.base
	}
	return t.lanes[variant]
}

// join puts a client at the end of its lane or, if it is back, where it was.
func (q *queue[C]) join(w *Waiter[C]) {
	l := w.tenant.lane(w.Variant)
	if l == nil {
		l = q.newLane(w.tenant, w.Variant)
		l.first = w
		l.line.add(l)
		w.lane, l.last = l, w
		return
	}
	w.lane = l
	var next *Waiter[C]
	if w.Back {
		for next = l.first; next != nil && next.precedes(w); next = next.after {
		}
	}
	w.after, w.before = next, l.last
	if next != nil {
		w.before = next.before
		next.before = w
	} else {
		l.last = w
	}
	if w.before != nil {
		w.before.after = w
		return
	}
	l.first = w
	l.line.lanes.fix(l)
}

// newLane returns an empty lane.
func (q *queue[C]) newLane(t *tenant[C], variant string) *lane[C] {
	if variant == "" {
		t.base.tenant, t.base.line = t, &q.base
		return &t.base
	}
	joined := q.lines[variant]
	if joined == nil {
		if q.lines == nil {
			q.lines = make(map[string]*line[C])
		}
		joined = new(line[C])
		initLine(joined, variant)
		q.lines[variant] = joined
	}
	l := &lane[C]{tenant: t, line: joined}
	if t.lanes == nil {
		t.lanes = make(map[string]*lane[C])
	}
	t.lanes[variant] = l
	return l
}

// quit takes a client out of its lane.
func (q *queue[C]) quit(w *Waiter[C]) {
	l := w.lane
	if w.after != nil {
		w.after.before = w.before
	} else {
		l.last = w.before
	}
	if w.before != nil {
		w.before.after = w.after
	} else if w.after == nil { // the lane is empty
		l.line.drop(l)
		l.first = nil
		if l != &l.tenant.base {
			delete(l.tenant.lanes, l.line.variant)
			if len(l.line.lanes.items) == 0 {
				delete(q.lines, l.line.variant)
			}
		}
	} else {
		l.first = w.after
		l.line.lanes.fix(l)
	}
	w.before, w.after, w.lane = nil, nil, nil
}

// add adds a lane that has its first client. Where several tenants wait, each knows its lane, since the order changes with what they use.
func (l *line[C]) add(added *lane[C]) {
	l.lanes.push(added)
	switch len(l.lanes.items) {
	case 1:
		return
	case 2:
		for _, lane := range l.lanes.items {
			lane.contend()
		}
	default:
		added.contend()
	}
}

// drop removes a lane. Its first client is still there.
func (l *line[C]) drop(dropped *lane[C]) {
	if len(l.lanes.items) > 1 {
		dropped.relax()
	}
	l.lanes.remove(dropped)
	if len(l.lanes.items) == 1 {
		l.lanes.items[0].relax()
	}
}

func (l *lane[C]) contend() {
	l.inContended = len(l.tenant.contended)
	l.tenant.contended = append(l.tenant.contended, l)
}

func (l *lane[C]) relax() {
	all := l.tenant.contended
	last := all[len(all)-1]
	all[l.inContended], last.inContended = last, l.inContended
	all[len(all)-1] = nil
	l.tenant.contended = all[:len(all)-1]
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
	l := q.counted(w.lane.line)
	if l.coming <= 0 { // clients ahead may have used up more, see undialedAhead
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
