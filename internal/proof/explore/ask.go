package explore

import "slices"

// maxKept is how many questions a machine keeps the results of.
const maxKept = 1_500_000

// ask returns what can come of a question: one result for each order of equals that makes a difference.
func (m *machine) ask(q *question) []result {
	q.simplify()
	if m.o.Ordered {
		return m.answers(q)
	}
	// Proxies are interchangeable, so the one that asks may be the first, and the others in any order.
	var order [maxProxies]int
	for i := range order {
		order[i] = i
	}
	asks := int(q.id)
	if q.arrives {
		asks = int(q.report.id)
	}
	asks /= m.o.generations()
	order[0], order[asks] = order[asks], order[0]
	if m.o.Proxies == 3 && q.mark(m.o, order[1]) > q.mark(m.o, order[2]) {
		order[1], order[2] = order[2], order[1]
	}
	renaming := m.renamings[code(order[:m.o.Proxies])]
	renaming.to.question(q)
	results := m.answers(q)
	if renaming.same {
		return results
	}
	m.renamed = append(m.renamed[:0], results...)
	for i := range m.renamed {
		renaming.back.result(&m.renamed[i])
	}
	return m.renamed
}

// mark returns a number for the proxy in a slot that does not depend on the order of proxies.
func (q *question) mark(o *Options, slot int) (mark uint64) {
	per := o.generations()
	l, h := &q.ledger, &q.holder
	for id := uint8(slot * per); id < uint8((slot+1)*per); id++ {
		for _, s := range [...]ids{l.members, l.departed, l.past, h.members, h.lost, h.dead, q.report.others} {
			mark <<= 1
			if s.has(id) {
				mark |= 1
			}
		}
		for _, g := range [...]grant{l.grants.of[id], h.view.of[id]} {
			for _, n := range [...]uint8{g.places, g.holds, g.needs, g.wants} {
				mark = mark*31 + uint64(n)
			}
		}
		mark = mark*5 + uint64(l.said[id])
	}
	return mark
}

// answers returns what can come of a simple question.
func (m *machine) answers(q *question) []result {
	if results, ok := m.results.find(q); ok {
		return results
	}
	// Only the order of those that have grants, or get one, can matter.
	involved := q.ledger.grants.there | q.holder.view.there | one(q.id)
	if q.arrives {
		involved = q.ledger.grants.there | one(q.report.id)
	}
	var all [6]result
	found := all[:0]
	m.inOrders(involved, func(n *names) {
		if r := n.answer(q, m.o.Cap); !slices.Contains(found, r) {
			found = append(found, r)
		}
	})
	return m.results.keep(q, found)
}

// askFailures returns what can come of a question without an answer, one for each order of equals that makes a difference.
func (m *machine) askFailures(q *question) []failure {
	// It does not depend on the ledger, but for how a report compares with it.
	alone := *q
	alone.ledger, alone.relation = ledger{}, unknown
	alone.simplify()
	if failures, ok := m.failures.find(&alone); ok {
		return failures
	}
	var all [6]failure
	found := all[:0]
	m.inOrders(q.holder.view.there|one(q.id), func(n *names) {
		if f := n.fail(&alone, m.o.Cap); !slices.Contains(found, f) {
			found = append(found, f)
		}
	})
	return m.failures.keep(&alone, found)
}

// inOrders calls a function with each order of some processes.
func (m *machine) inOrders(some ids, do func(*names)) {
	var all [6]uint64
	tried := all[:0]
	for _, n := range m.orders {
		if order := n.among(some); !slices.Contains(tried, order) {
			tried = append(tried, order)
			do(n)
		}
	}
}

// cache keeps what has come of questions. It has no pointers that the garbage collector would have to follow.
type cache[T any] struct {
	places map[question]place
	blocks [][]T
}

// place is where in a cache the results of a question are.
type place struct{ block, from, to uint32 }

// blockSize is how many results a cache has room for at a time.
const blockSize = 1024

func (c *cache[T]) find(q *question) ([]T, bool) {
	p, ok := c.places[*q]
	if !ok {
		return nil, false
	}
	return c.blocks[p.block][p.from:p.to], true
}

// keep keeps results, and returns where they are.
func (c *cache[T]) keep(q *question, results []T) []T {
	if c.places == nil || len(c.places) >= maxKept {
		c.places, c.blocks = make(map[question]place), nil
	}
	last := len(c.blocks) - 1
	if last < 0 || len(c.blocks[last])+len(results) > blockSize {
		c.blocks = append(c.blocks, make([]T, 0, blockSize))
		last++
	}
	b := &c.blocks[last]
	from := len(*b)
	*b = append(*b, results...)
	c.places[*q] = place{uint32(last), uint32(from), uint32(len(*b))}
	return (*b)[from:]
}

// simplify drops what the answer does not depend on, so that more questions are the same.
func (q *question) simplify() {
	if !q.arrives {
		// The holder's next report is later than all before.
		q.holder.sequence = 0
		q.ledger.sequence, q.ledger.parted = [maxIDs]uint8{}, [maxIDs]uint8{}
		q.holder.fresh &= q.timedOut
	}
}

// latest is a sequence number that is higher than those of all reports under way.
const latest = 255

// complete puts what [question.simplify] dropped into the result of an exchange of process i.
func (m *machine) complete(r *result, w *world, i int) {
	p, l := &w.proxies[i], &w.ledgers[current]
	id := m.o.id(i, p)
	for other := range uint8(maxIDs) {
		if r.ledger.members.has(other) {
			r.ledger.sequence[other] = l.sequence[other]
		}
		switch {
		case !r.ledger.departed.has(other):
		case l.members.has(other) && !r.ledger.members.has(other):
			r.ledger.parted[other] = max(l.sequence[other], l.parted[other])
		default:
			r.ledger.parted[other] = l.parted[other]
		}
	}
	if r.ledger.members.has(id) {
		r.ledger.sequence[id] = latest
	}
}

// completeFailure does the same for an exchange without an answer.
func (m *machine) completeFailure(f *failure, w *world, i int) {
	f.holder.fresh = w.proxies[i].holder.fresh & f.holder.members
	f.report.sequence = latest
}
