package explore

import "math/bits"

// renaming gives processes other IDs.
type renaming struct {
	to     [maxIDs]uint8
	spoken ids // the others are nowhere
	sets   [256]ids
	known  [256]bool // which of sets are worked out
}

func newRenaming(spoken ids, to [maxIDs]uint8) *renaming { return &renaming{to: to, spoken: spoken} }

func (r *renaming) set(s *ids) {
	if *s == 0 {
		return
	}
	if !r.known[*s] {
		renamed := ids(0)
		for rest := *s & r.spoken; rest != 0; rest &= rest - 1 {
			renamed |= one(r.to[bits.TrailingZeros8(uint8(rest))])
		}
		r.sets[*s], r.known[*s] = renamed, true
	}
	*s = r.sets[*s]
}

func (r *renaming) numbers(all *[maxIDs]uint8) {
	if *all == ([maxIDs]uint8{}) {
		return
	}
	var renamed [maxIDs]uint8
	for id, n := range all {
		if r.spoken.has(uint8(id)) {
			renamed[r.to[id]] = n
		}
	}
	*all = renamed
}

func (r *renaming) grants(g *grants) {
	if g.there == 0 {
		return
	}
	var renamed [maxIDs]grant
	for rest := g.there & r.spoken; rest != 0; rest &= rest - 1 {
		id := bits.TrailingZeros8(uint8(rest))
		renamed[r.to[id]] = g.of[id]
	}
	g.of = renamed
	r.set(&g.there)
}

func (r *renaming) holder(h *holder) {
	r.set(&h.lost)
	r.set(&h.dead)
	r.set(&h.members)
	r.set(&h.fresh)
	r.grants(&h.view)
}

func (r *renaming) ledger(l *ledger) {
	if !l.exists {
		return
	}
	r.set(&l.members)
	r.set(&l.departed)
	r.set(&l.past)
	r.numbers(&l.said)
	r.numbers(&l.sequence)
	r.numbers(&l.parted)
	r.grants(&l.grants)
}

func (r *renaming) report(to *report) {
	to.id = r.to[to.id]
	r.set(&to.others)
	r.set(&to.proven)
	r.set(&to.timedOut)
	r.set(&to.fresh)
}

func (r *renaming) answer(a *answer) {
	r.set(&a.members)
	r.grants(&a.grants)
}

func (r *renaming) world(w *world) {
	for i := range w.proxies {
		r.set(&w.proxies[i].knows)
		r.set(&w.proxies[i].knew)
		r.holder(&w.proxies[i].holder)
	}
	for i := range w.ledgers {
		r.ledger(&w.ledgers[i])
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			r.report(&f.report)
			r.answer(&f.answer)
		}
	}
}

func (r *renaming) question(q *question) {
	r.ledger(&q.ledger)
	if q.arrives {
		r.report(&q.report)
		return
	}
	q.id = r.to[q.id]
	r.holder(&q.holder)
	r.set(&q.proven)
	r.set(&q.timedOut)
}

func (r *renaming) result(to *result) {
	r.ledger(&to.ledger)
	r.holder(&to.holder)
	r.answer(&to.answer)
}

// reslot returns the renaming that gives each slot the place at which it is in an order of slots, and its reverse.
func reslot(order []int, per int) (to, back *renaming) {
	to, back = newRenaming(^ids(0), [maxIDs]uint8{}), newRenaming(^ids(0), [maxIDs]uint8{})
	for id := range uint8(maxIDs) {
		to.to[id], back.to[id] = id, id
	}
	for place, slot := range order {
		for g := range per {
			to.to[slot*per+g] = uint8(place*per + g)
			back.to[place*per+g] = uint8(slot*per + g)
		}
	}
	return to, back
}
