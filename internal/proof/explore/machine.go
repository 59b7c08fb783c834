package explore

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// machine takes steps. It belongs to one goroutine.
type machine struct {
	o      *Options
	seeds  [2]maphash.Seed // of keys
	orders []*names        // of equals; each that may be
	// The same holder asks the same ledger the same in many worlds.
	results     cache[result]
	failures    cache[failure]
	asked       question
	renamed     []result     // results of the last question, with the names that it had
	reorderings []reordering // of proxies; each that may be, the first is the one that they have
	chosen      []choice
	to          *world // that a step leads to
	other       world  // scratch
	problem     string // what is wrong with the step, apart from what [machine.check] finds
	// found is called with each world that a step leads to, in its normal form.
	found func(w *world, problem string)

	named     bool // steps have names
	name      string
	labels    string          // letters of the proxies by position, for names of steps
	positions [maxProxies]int // where the proxies of the last world were before it was put into its normal form
	// beside does the same with holders and ledgers that are never made flat, in a test.
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

// alone is no companion.
type alone struct{}

func (alone) exchange(int, choice, bool, ids, outcome) {}
func (alone) arrive(int)                               {}
func (alone) expire(int, uint8)                        {}
func (alone) forget(uint8)                             {}
func (alone) database(int)                             {}
func (alone) back()                                    {}
func (alone) crash(int)                                {}
func (alone) restart(int)                              {}
func (alone) compare(*world)                           {}

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
	m := &machine{o: o, seeds: seeds, to: new(world), beside: alone{}, results: make(cache[result]), failures: make(cache[failure])}
	order := make([]int, o.Proxies)
	for i := range order {
		order[i] = i
	}
	permute(order, 0, func(order []int) {
		r := reordering{same: len(m.reorderings) == 0}
		copy(r.order[:], order)
		r.to, r.back = reposition(order, o.generations())
		m.reorderings = append(m.reorderings, r)
		if !o.Ordered || len(m.orders) == 0 {
			m.orders = append(m.orders, newNames(o, order))
		}
	})
	return m
}

// reordering puts proxies into another order, and back. same: it is the order that they have.
type reordering struct {
	order    [maxProxies]int
	to, back *renaming
	same     bool
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
	m.beside.compare(m.to)
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
	from := *w
	var marks [maxProxies]uint64
	for i := range m.o.Proxies {
		marks[i] = w.mark(m, i)
	}
	var least key
	for _, r := range m.reorderings {
		sorted := slices.IsSortedFunc(r.order[:m.o.Proxies], func(a, b int) int { return cmp.Compare(marks[a], marks[b]) })
		if !sorted && !m.o.Ordered {
			continue
		}
		m.reorder(&m.other, &from, r)
		// Proxies with equal marks may still be told apart by what others know of them, so the world of all that fit counts whose key is least.
		if k := m.other.key(&m.seeds); least == (key{}) || slices.Compare(k[:], least[:]) < 0 {
			least, m.positions, *w = k, r.order, m.other
		}
		if m.o.Ordered {
			return
		}
	}
}

// mark returns a number for a proxy that does not depend on the order of proxies. It saves trying all of them.
func (w *world) mark(m *machine, i int) uint64 {
	p := &w.proxies[i]
	id := m.o.id(i, p)
	return maphash.Comparable(m.seeds[0], struct {
		dead, cut, expired, declared, dirty, reported, full bool
		used, generation, limit, granted                    uint8
		relation                                            [maxLedgers]uint8
		grants                                              [2]grant
	}{
		p.dead, p.cut, p.expired, p.declared, p.holder.dirty, w.ledgers[current].reported[id] == reportedHere, p.holder.needsFull,
		p.used, p.generation, p.holder.limit, p.holder.granted, p.at.relation,
		[...]grant{p.holder.reported, w.ledgers[current].grants.of[id]},
	})
}

// reorder puts the proxies of a world into an order.
func (m *machine) reorder(to, from *world, r reordering) {
	*to = *from
	if !r.same {
		for i, position := range r.order[:m.o.Proxies] {
			to.proxies[i] = from.proxies[position]
		}
		r.to.world(to)
	}
	to.nameEpochs()
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
	asks := int(q.id)
	if q.arrives {
		asks = int(q.report.id)
	}
	asks /= m.o.generations()
	others := func(a, b int) int { return cmp.Compare(q.mark(m, a), q.mark(m, b)) }
	r := &m.reorderings[slices.IndexFunc(m.reorderings, func(r reordering) bool {
		return r.order[0] == asks && slices.IsSortedFunc(r.order[1:m.o.Proxies], others)
	})]
	r.to.question(q)
	results := m.answers(q)
	if r.same {
		return results
	}
	m.renamed = append(m.renamed[:0], results...)
	for i := range m.renamed {
		r.back.result(&m.renamed[i])
	}
	return m.renamed
}

// mark returns a number for the proxy at a position that does not depend on the order of proxies. It makes more questions the same.
func (q *question) mark(m *machine, position int) (mark uint64) {
	per := m.o.generations()
	for id := uint8(position * per); id < uint8((position+1)*per); id++ {
		mark = 31*mark + maphash.Comparable(m.seeds[0], struct {
			member, departed, known bool
			reported                uint8
			grants                  [2]grant
		}{
			q.ledger.members.has(id), q.ledger.departed.has(id), q.holder.members.has(id),
			q.ledger.reported[id],
			[...]grant{q.ledger.grants.of[id], q.holder.view.of[id]},
		})
	}
	return mark
}

// answers returns what can come of a simple question.
func (m *machine) answers(q *question) []result {
	if results, ok := m.results[*q]; ok {
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
	if failures, ok := m.failures[alone]; ok {
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

// cache keeps what has come of questions.
type cache[T any] map[question][]T

// keep keeps results, and returns them.
func (c cache[T]) keep(q *question, results []T) []T {
	if len(c) >= maxKept {
		clear(c)
	}
	c[*q] = slices.Clone(results)
	return c[*q]
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
