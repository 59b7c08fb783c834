package explore

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
)

// machine takes steps. It belongs to one goroutine.
type machine struct {
	o      *Options
	seeds  [2]maphash.Seed // of keys
	orders []*names        // of equals; each that may be
	// The same holder asks the same ledger the same in many worlds.
	results  cache[result]
	failures cache[failure]
	asked    question
	renamed  []result // results of the last question, with the names that it had
	// renamings put proxies into an order, by its code.
	renamings map[int]reordering
	chosen    []choice
	to        *world // that a step leads to
	other     world  // scratch
	problem   string // what is wrong with the step, apart from what [machine.check] finds
	// found is called with each world that a step leads to, in its normal form.
	found func(w *world, problem string)

	named     bool // steps have names
	name      string
	labels    string          // letters of the proxies by position, for names of steps
	positions [maxProxies]int // where the proxies of the last world were before it was put into its normal form
	// beside does the same with holders and ledgers that are never made flat, in a test; nil for none.
	beside companion
}

// companion takes the same steps as a machine.
type companion interface {
	exchange(i int, c choice, waits bool, timedOut ids, what outcome)
	arrive(flight int)
	expire(i int, used uint8)
	forget(id uint8)
	database(lost int)
	back()
	crash(i int)
	restart(i int)
	// compare is called at the end of a step with the world that it leads to, before that is brought into its normal form.
	compare(w *world)
}

// outcome is what becomes of an exchange.
type outcome int

const (
	answered outcome = iota
	requestLost
	answerLost
	requestDelayed
	answerDelayed
)

func newMachine(o *Options, seeds [2]maphash.Seed) *machine {
	m := &machine{o: o, seeds: seeds, to: new(world), renamings: make(map[int]reordering)}
	order := make([]int, o.Proxies)
	for i := range order {
		order[i] = i
	}
	permute(order, 0, func(order []int) {
		to, back := reposition(order, o.generations())
		m.renamings[code(order)] = reordering{to, back, len(m.renamings) == 0}
		if !o.Ordered || len(m.orders) == 0 {
			m.orders = append(m.orders, newNames(o, order))
		}
	})
	return m
}

// reordering puts proxies into another order, and back. same: it is the order that they have.
type reordering struct {
	to, back *renaming
	same     bool
}

// code returns a number for an order of proxies.
func code(order []int) (n int) {
	for _, position := range order {
		n = n*maxProxies + position
	}
	return n
}

// permute calls a function with each order of the elements from an index on; the first time with the one at hand.
func permute(all []int, from int, do func([]int)) {
	if from == len(all) {
		do(all)
		return
	}
	for i := from; i < len(all); i++ {
		all[from], all[i] = all[i], all[from]
		permute(all, from+1, do)
		all[from], all[i] = all[i], all[from]
	}
}

// generations is how many processes can follow each other at a position, one after the other.
func (o *Options) generations() int { return o.Faults.Restarts + 1 }

// id returns the ID of the process at a position.
func (o *Options) id(position int, p *proxy) uint8 {
	return uint8(position*o.generations()) + p.generation
}

// begin begins a step.
func (m *machine) begin(w *world) { *m.to, m.problem = *w, "" }

// wrong says what is wrong with the step.
func (m *machine) wrong(format string, args ...int) { m.problem = m.text(m.to, format, args) }

// add ends a step. The first of the arguments is a proxy's position, or -1 less the ID of a process.
func (m *machine) add(format string, args ...int) {
	if m.named {
		m.name = m.text(m.to, format, args)
	}
	m.settleAccounts(m.to)
	if m.beside != nil {
		m.beside.compare(m.to)
	}
	m.to.normalise(m.o)
	m.canonical(m.to)
	m.found(m.to, m.problem)
}

func (m *machine) text(w *world, format string, args []int) string {
	all := make([]any, len(args))
	for i, n := range args {
		all[i] = n
		if i > 0 || !strings.Contains(format, "%s") {
			continue
		}
		if n >= 0 {
			n = -1 - int(m.o.id(n, &w.proxies[n]))
		}
		position, generation := (-1-n)/m.o.generations(), (-1-n)%m.o.generations()
		all[i] = fmt.Sprintf("%c%d", m.letter(position), generation)
	}
	return fmt.Sprintf(format, all...)
}

func (m *machine) letter(position int) byte {
	if m.labels != "" {
		return m.labels[position]
	}
	return 'a' + byte(position)
}

// canonical puts the proxies into one order, if they are interchangeable. They are, since each step is taken with each order of equals
// ([machine.ask]): what one proxy can do, another in its place can do, too. The real ones keep one order of IDs for good, so more is
// explored than can happen, and nothing less.
func (m *machine) canonical(w *world) {
	n := m.o.Proxies
	var order [maxProxies]int
	for i := range order {
		order[i] = i
	}
	m.positions = order
	if m.o.Ordered {
		w.nameEpochs()
		return
	}
	var marks [maxProxies]uint64
	for i := range n {
		marks[i] = w.mark(m.o, i)
	}
	slices.SortFunc(order[:n], func(a, b int) int {
		switch {
		case marks[a] < marks[b]:
			return -1
		case marks[a] > marks[b]:
			return 1
		}
		return a - b
	})
	m.positions = order
	equal := false
	for i := 1; i < n; i++ {
		equal = equal || marks[order[i]] == marks[order[i-1]]
	}
	if !equal {
		m.reorder(w, w, order[:n])
		return
	}
	// Proxies with equal marks may still be told apart by what others know of them, so the world of all that fit counts whose key is least.
	from, first, sorted := *w, true, order
	var least key
	all := order
	permute(all[:n], 0, func(order []int) {
		for i := range order {
			if marks[order[i]] != marks[sorted[i]] {
				return
			}
		}
		m.reorder(&m.other, &from, order)
		if k := m.other.key(&m.seeds); first || slices.Compare(k[:], least[:]) < 0 {
			first, least = false, k
			*w = m.other
			copy(m.positions[:], order)
		}
	})
}

// reorder puts the proxies of a world into an order.
func (m *machine) reorder(to, from *world, order []int) {
	same := true
	for i, position := range order {
		same = same && i == position
	}
	if same {
		*to = *from
		to.nameEpochs()
		return
	}
	was := from.proxies
	*to = *from
	for i, position := range order {
		to.proxies[i] = was[position]
	}
	m.renamings[code(order)].to.world(to)
	to.nameEpochs()
}

// mark returns a number for a proxy that does not depend on the order of proxies.
func (w *world) mark(o *Options, i int) uint64 {
	p := &w.proxies[i]
	h := &p.holder
	per := o.generations()
	n := uint64(14695981039346656037)
	mix := func(b uint8) { n = (n ^ uint64(b)) * 1099511628211 }
	flag := func(all ...bool) {
		b := uint8(0)
		for _, f := range all {
			b <<= 1
			if f {
				b |= 1
			}
		}
		mix(b)
	}
	flag(p.dead, p.cut, p.expired, p.declared, p.at.known, h.needsFull, h.frozen, h.settled)
	flag(h.dirty, h.short, h.account)
	mix(p.generation)
	mix(p.used<<4 | h.limit)
	mix(h.granted<<4 | h.reported.needs)
	mix(h.reported.wants)
	for _, s := range [...]ids{p.knows, p.knew, h.lost, h.dead, h.members, h.fresh, h.view.there} {
		mix(uint8(bits.OnesCount8(uint8(s))))
	}
	for j := range w.ledgers {
		l := &w.ledgers[j]
		if !l.exists {
			continue
		}
		mix(p.at.relation[j])
		for id := i * per; id < (i+1)*per; id++ {
			flag(l.members.has(uint8(id)), l.departed.has(uint8(id)), l.past.has(uint8(id)))
			mix(l.reported[id])
			mix(l.sequence[id]<<4 | l.parted[id])
			g := &l.grants.of[id]
			mix(g.places<<4 | g.holds)
			mix(g.needs<<4 | g.wants)
		}
	}
	for j := range w.flights {
		if f := &w.flights[j]; f.exists && int(f.report.id)/per == i {
			mix(1 + f.report.id%uint8(per))
		}
	}
	return n
}

// key identifies a world: 128 bits, of which two seldom agree. With 100 million worlds, the probability that any two do is below 10 to the -22.
type key [2]uint64

func (w *world) key(seeds *[2]maphash.Seed) key {
	return key{maphash.Comparable(seeds[0], *w), maphash.Comparable(seeds[1], *w)}
}

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

// mark returns a number for the proxy at a position that does not depend on the order of proxies.
func (q *question) mark(o *Options, position int) (mark uint64) {
	per := o.generations()
	l, h := &q.ledger, &q.holder
	for id := uint8(position * per); id < uint8((position+1)*per); id++ {
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
		mark = mark*5 + uint64(l.reported[id])
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
	locations map[question]location
	blocks    [][]T
}

// location is where in a cache the results of a question are.
type location struct{ block, from, to uint32 }

// blockSize is how many results a cache has room for at a time.
const blockSize = 1024

func (c *cache[T]) find(q *question) ([]T, bool) {
	p, ok := c.locations[*q]
	if !ok {
		return nil, false
	}
	return c.blocks[p.block][p.from:p.to], true
}

// keep keeps results, and returns where they are.
func (c *cache[T]) keep(q *question, results []T) []T {
	if c.locations == nil || len(c.locations) >= maxKept {
		c.locations, c.blocks = make(map[question]location), nil
	}
	last := len(c.blocks) - 1
	if last < 0 || len(c.blocks[last])+len(results) > blockSize {
		c.blocks = append(c.blocks, make([]T, 0, blockSize))
		last++
	}
	b := &c.blocks[last]
	from := len(*b)
	*b = append(*b, results...)
	c.locations[*q] = location{uint32(last), uint32(from), uint32(len(*b))}
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
