package pool

import "math"

// This file says which tenant's client is served next. The functions are called with the group's mutex held.

// class is what comes first in the order in which tenants are served.
type class uint8

const (
	// guaranteed: the tenant uses less than it is guaranteed.
	guaranteed class = iota
	// overdue: the tenant has no session, and since it is due by its share, clients of others were served.
	overdue
	// byShare: the tenant that will use the least for its share is served next.
	byShare
)

// rank is a tenant's place among the tenants.
type rank struct {
	class class
	key   float64 // within a class, the least is served first
	due   float64 // of those with the same key, the least: those without sessions by their deadlines, then the others
}

// rank works out the rank of a tenant that uses the given number of connections.
func (s *standing) rank(inUse int) rank {
	r := rank{byShare, float64(inUse+1) / s.share, math.Inf(1)}
	if inUse == 0 {
		r.due = s.deadline
	}
	switch {
	case inUse < s.guaranteed:
		r.class = guaranteed
	case s.overdue && inUse == 0:
		r.class, r.key = overdue, s.deadline
	}
	return r
}

// before tells which of two tenants is served first. Of equals, it is the one whose client, of that ticket, came first.
func (r *rank) before(other *rank, ticket, otherTicket uint64) bool {
	switch {
	case r.class != other.class:
		return r.class < other.class
	case r.key != other.key:
		return r.key < other.key
	case r.due != other.due:
		return r.due < other.due
	}
	return ticket < otherTicket
}

// initQueue makes a queue ready for use.
func initQueue[C any](q *queue[C]) {
	initVariantQueue(&q.base, "")
	q.order.before = func(s, t *tenant[C]) bool { return s.ranked.before(&t.ranked, s.first.ticket, t.first.ticket) }
	q.order.index = func(t *tenant[C]) *int { return &t.inOrder }
	q.fullest.before = func(s, t *tenant[C]) bool {
		a, b := float64(s.waiting)/s.share, float64(t.waiting)/t.share
		return a > b || a == b && s.last.ticket > t.last.ticket
	}
	q.fullest.index = func(t *tenant[C]) *int { return &t.inFullest }
	q.deadlines.before = func(s, t *tenant[C]) bool { return s.deadline < t.deadline }
	q.deadlines.index = func(t *tenant[C]) *int { return &t.inDeadlines }
	q.steps.before = func(s, t step[C]) bool { return s.ranked.before(&t.ranked, s.next.ticket, t.next.ticket) }
}

// enter takes in a tenant whose first client begins to wait.
func (q *queue[C]) enter(t *tenant[C]) {
	q.shares += t.share
	t.began = q.virtual
	if t.inUse == 0 {
		q.setDeadline(t)
	}
	t.ranked = t.rank(t.inUse)
	q.order.push(t)
	q.fullest.push(t)
}

// exit takes out a tenant whose last client no longer waits.
func (q *queue[C]) exit(t *tenant[C]) {
	q.order.remove(t)
	q.fullest.remove(t)
	q.endDeadline(t)
	if q.shares -= t.share; q.length == 0 {
		q.shares = 0 // without the error that sums of fractions gather
	}
}

// reorder puts a tenant with waiting clients in its place after it has got a connection or lost one.
func (q *queue[C]) reorder(t *tenant[C]) {
	switch {
	case t.inUse > 0:
		q.endDeadline(t)
	case !t.hasDeadline && !t.overdue:
		q.setDeadline(t)
	}
	q.rerank(t)
}

func (q *queue[C]) rerank(t *tenant[C]) {
	t.ranked = t.rank(t.inUse)
	q.order.fix(t)
	for _, l := range t.contended {
		l.parent.tenants.fix(l)
	}
}

// setDeadline begins to count for a tenant that waits and uses no connection.
//
// By what they use, a tenant whose share is less than one connection would never be served while others wait. So it is due after as many
// clients were served as its share says (weighted fair queueing): virtual time passes by 1/shares with each client, where shares
// is the sum of the shares of all tenants that wait, and the tenant is due 1/share, which is its turn, after it was last served, or began to wait.
func (q *queue[C]) setDeadline(t *tenant[C]) {
	t.deadline = max(t.began, t.served) + t.turn
	t.overdue = t.deadline <= q.virtual
	if t.hasDeadline = !t.overdue; t.hasDeadline {
		q.deadlines.push(t)
	}
}

func (q *queue[C]) endDeadline(t *tenant[C]) {
	if t.hasDeadline {
		q.deadlines.remove(t)
	}
	t.hasDeadline, t.overdue = false, false
}

// advance moves the virtual time on, since a client of the tenant, which is still in the queue, has got its connection.
func (q *queue[C]) advance(served *tenant[C]) {
	q.virtual += 1 / q.shares
	served.served = q.virtual
	if served.inUse == 1 { // it counts as served at its deadline, so that it neither wins nor loses by the moment, but at most a turn
		served.served = min(max(served.deadline, q.virtual-served.turn), q.virtual+served.turn)
	}
	for {
		t, ok := q.deadlines.best()
		if !ok || t.deadline > q.virtual {
			return
		}
		q.deadlines.remove(t)
		t.hasDeadline, t.overdue = false, true
		q.rerank(t)
	}
}

// sort restores the order after shares or guarantees have changed.
func (q *queue[C]) sort() {
	for _, t := range q.order.items {
		if t.inUse == 0 {
			q.endDeadline(t)
			q.setDeadline(t)
		}
		t.ranked = t.rank(t.inUse)
	}
	q.order.sort()
	q.fullest.sort()
	q.base.tenants.sort()
	for _, l := range q.variants {
		l.tenants.sort()
	}
}

// servable returns the client to be served next of those for which there is an idle connection, and whose tenant may use another
// place; nil for none.
func (g *Group[C]) servable() *Waiter[C] {
	if w := g.servableAhead(); w != nil {
		return w
	}
	var next *tenantQueue[C]
	for _, p := range g.pools {
		if p.counts[Idle] == 0 || !p.leasable() {
			continue
		}
		for _, v := range p.variants {
			if v.newest == nil {
				continue
			}
			l := g.queue.ofVariant(v.name)
			if l == nil {
				continue
			}
			if best, ok := l.tenants.best(); ok && (next == nil || next != best && servedBefore(best, next)) {
				next = best
			}
		}
	}
	if next == nil || !g.entitles(next.tenant) { // tenants that use less than they are guaranteed come first
		return nil
	}
	return next.first
}

// step is a tenant on a walk: the next of its clients, and how many were passed.
type step[C any] struct {
	tenant *tenant[C]
	next   *Waiter[C]
	passed int
	ranked rank
	index  int // of the tenant in queue.order, if it is new on the walk; -1 otherwise
}

// walk calls visit with the waiting clients in the order in which they would be served if no client came or left, until it returns false. It
// leaves out those for whom no place would be left, because the others are guaranteed to other tenants. Its cost grows with the
// clients that are visited, not with those that wait.
func (g *Group[C]) walk(visit func(*Waiter[C]) bool) {
	q := &g.queue
	if len(q.order.items) == 0 {
		return
	}
	if len(q.order.items) == 1 && g.promised == 0 { // as nearly always
		for w := q.order.items[0].first; w != nil && visit(w); w = w.in[ofTenant].behind {
		}
		return
	}
	open := 0
	if g.promised > 0 {
		open = g.open()
	}
	// The heap order is a tree: a tenant is served after its parent. So only the children of those that were visited are compared.
	add := func(i int) {
		if i < len(q.order.items) {
			t := q.order.items[i]
			q.steps.push(step[C]{tenant: t, next: t.first, ranked: t.ranked, index: i})
		}
	}
	add(0)
	for len(q.steps.items) > 0 {
		s := q.steps.pop()
		if s.index >= 0 {
			add(2*s.index + 1)
			add(2*s.index + 2)
		}
		t := s.tenant
		if g.promised > 0 && t.inUse+s.passed >= t.guaranteed {
			if open <= 0 {
				continue
			}
			open--
		}
		if !visit(s.next) {
			break
		}
		if s.next = s.next.in[ofTenant].behind; s.next != nil {
			s.passed++
			s.index = -1
			s.ranked = t.rank(t.inUse + s.passed)
			q.steps.push(s)
		}
	}
	clear(q.steps.items)
	q.steps.items = q.steps.items[:0]
}
