package explore

import "slices"

// choice is what a process does before an exchange: how many connections it has, how many places it needs, and whose end it can prove.
type choice struct {
	used, demand uint8
	proven       ids
}

// reserving is from which cap on the ledger keeps a reserve.
const reserving = 8

// choices are what a process may do by itself before an exchange: open and close connections within its limit, need places or not, and prove that
// others have ended. Nothing else depends on the moment at which it does so, and [proxy.may] is what others have to reckon with until then. How many
// connections it has within its limit matters only to one that will hear that it was forgotten.
func (m *machine) choices(w *world, i int) []choice {
	p := &w.proxies[i]
	used := 0
	if p.used > p.holder.limit || w.ledgers[current].departed.has(m.o.id(i, p)) {
		used = int(p.may())
	}
	provable := p.holder.members & m.ended(w) &^ p.holder.dead
	m.chosen = m.chosen[:0]
	for n := range uint8(used + 1) {
		for proven := provable; ; proven = (proven - 1) & provable { // all subsets
			m.chosen = append(m.chosen, choice{n, 0, proven}, choice{n, uint8(m.o.Cap), proven})
			if m.o.Cap >= reserving { // some, of which the ledger may give more than is needed, or keep some in reserve
				m.chosen = append(m.chosen, choice{n, uint8(m.o.Cap / 2), proven})
			}
			if proven == 0 {
				break
			}
		}
	}
	return m.chosen
}

// ended are the processes that have ended, whether another has taken their place or not.
func (m *machine) ended(w *world) ids {
	all := ^ids(0)
	for i := range m.o.Proxies {
		if p := &w.proxies[i]; !p.dead {
			all &^= one(m.o.id(i, p))
		}
	}
	return all
}

// exchanges takes the exchanges of a process.
func (m *machine) exchanges(w *world, i int) {
	p := &w.proxies[i]
	settles, cuts := false, ids(0)
	if l := &w.ledgers[current]; p.at.known && !p.holder.settled && !p.holder.whole && here(p.at.relation[current]) && l.own {
		settles, cuts = m.maySettle(w, i)
	}
	ended := m.ended(w)
	for _, c := range m.choices(w, i) {
		m.exchange(w, i, c, false, 0, "an exchange")
		if settles {
			m.exchangeAfterLease(w, i, c, cuts)
		}
		for id := range uint8(maxIDs) {
			if !p.holder.members.has(id) {
				continue
			}
			costs := ended.has(id)
			if costs && (w.left.total == 0 || w.left.timeouts == 0) || !costs && !m.process(w, id).expired {
				continue
			}
			m.exchange(w, i, c, costs, one(id), "an exchange, after the time-out of another has passed")
		}
	}
}

// process returns the living process with an ID.
func (m *machine) process(w *world, id uint8) *proxy { return &w.proxies[int(id)/m.o.generations()] }

// question returns what is asked in an exchange.
func (m *machine) question(w *world, i int, c choice) *question {
	p := &w.proxies[i]
	m.asked = question{
		ledger: w.ledgers[current], relation: p.at.relation[current], known: p.at.known,
		id: m.o.id(i, p), holder: p.holder, used: c.used, demand: c.demand, expired: p.expired, proven: c.proven,
	}
	return &m.asked
}

// exchangeAfterLease takes the exchange in which a process says that it has watched the epoch for a lease time.
func (m *machine) exchangeAfterLease(w *world, i int, c choice, cuts ids) {
	q := m.question(w, i, c)
	q.waits = true
	for _, r := range m.ask(q) {
		m.complete(&r, w, i)
		most := m.start(w, i, c)
		for j := range m.o.Proxies {
			if cuts.has(uint8(j)) {
				m.cutOff(j)
			}
		}
		m.answered(i, &r)
		m.rest(i, most)
		if m.beside != nil {
			m.beside.exchange(i, c, true, 0, answered)
		}
		m.add("%s has %d connections and needs %d: an exchange after a lease time", i, int(c.used), int(c.demand))
	}
}

// start begins a step in which a process makes an exchange, and returns how many connections it may open meanwhile.
func (m *machine) start(w *world, i int, c choice) (most uint8) {
	m.begin(w)
	p := &m.to.proxies[i]
	p.cut, p.used = false, c.used
	return max(p.holder.limit, c.used)
}

// rest says that the process had at most so many connections while its limit may have been lowered.
func (m *machine) rest(i int, most uint8) { m.to.proxies[i].used = most }

// exchange takes an exchange, and what can go wrong with it. costs: that the others' time-out has passed is a fault.
func (m *machine) exchange(w *world, i int, c choice, costs bool, timedOut ids, what string) {
	q := m.question(w, i, c)
	q.timedOut = timedOut
	id := q.id
	before := w.proxies[i].at
	spent := uint8(0)
	if costs {
		spent = 1
	}
	begin := func() (most uint8) {
		most = m.start(w, i, c)
		m.to.left.total -= spent
		m.to.left.timeouts -= spent
		return most
	}
	say := func(most uint8, became outcome, outcome string) {
		m.rest(i, most)
		if m.beside != nil {
			m.beside.exchange(i, c, false, timedOut, became)
		}
		if m.named {
			outcome = "%s has %d connections and needs %d: " + what + outcome
		}
		m.add(outcome, i, int(c.used), int(c.demand))
	}
	losses, delays, answers := w.left.losses > 0, w.left.delays > 0 && w.left.total > spent, w.left.answers > 0 && w.left.total > spent
	var failures []failure
	if losses || delays || answers {
		failures = m.askFailures(q)
	}
	results := m.ask(q)
	for _, r := range results {
		m.complete(&r, w, i)
		most := begin()
		m.answered(i, &r)
		say(most, answered, "")
	}
	for _, f := range failures {
		m.completeFailure(&f, w, i)
		if losses {
			most := begin()
			m.to.proxies[i].holder = f.holder
			m.to.left.losses--
			say(most, requestLost, " whose request is lost")
		}
		if delays {
			most := begin()
			m.to.proxies[i].holder = f.holder
			m.fly(flight{exists: true, at: before, report: f.report})
			m.to.left.total--
			m.to.left.delays--
			say(most, requestDelayed, " whose request is delayed")
		}
		for _, r := range results {
			if !losses && !answers {
				break
			}
			m.complete(&r, w, i)
			if losses {
				most := begin()
				m.to.proxies[i].holder = f.holder
				m.commit(&r, before.relation[current], before.epoch, id)
				m.to.left.losses--
				say(most, answerLost, " whose answer is lost")
			}
			if answers {
				most := begin()
				m.to.proxies[i].holder = f.holder
				at := m.commit(&r, before.relation[current], before.epoch, id)
				if r.answer.stale {
					at = before
				}
				m.fly(flight{exists: true, late: true, at: at, report: f.report, answer: r.answer})
				m.to.left.total--
				m.to.left.answers--
				say(most, answerDelayed, " whose answer is delayed")
			}
		}
	}
}

// fly puts something under way.
func (m *machine) fly(f flight) {
	i := slices.IndexFunc(m.to.flights[:], func(f flight) bool { return !f.exists })
	m.to.flights[i] = f
}

// answered lets a process have an answer.
func (m *machine) answered(i int, r *result) {
	p := &m.to.proxies[i]
	at := m.commit(r, p.at.relation[current], p.at.epoch, m.o.id(i, p))
	if !r.answer.stale {
		p.at = at
	}
	p.holder = r.holder
	p.expired = false
	if r.answer.forgotten && p.holder.limit > p.used {
		m.wrong("%s may use %d places after it was forgotten, and uses %d", i, int(p.holder.limit), int(p.used))
	}
	for j := range m.o.Proxies {
		if id := m.o.id(j, &m.to.proxies[j]); j != i && r.answer.members.has(id) {
			p.knows |= one(id)
		}
	}
	p.knew &^= p.knows | r.ledger.departed
}

// commit puts what an exchange made of the ledger in force, and returns what its proxy knows of the ledger if it gets the answer. relation and epoch are
// what the report knew, and id is its proxy's.
func (m *machine) commit(r *result, relation, epoch, id uint8) reader {
	w := m.to
	was := w.ledgers[current]
	w.ledgers[current] = r.ledger
	if r.answer.stale {
		return reader{}
	}
	keeps := w.left.lost > 0 && w.left.databases > 0 && w.left.total > 0
	if keeps {
		for i := maxLedgers - 1; i > commits; i-- {
			w.ledgers[i], w.lag[i] = w.ledgers[i-1], w.lag[i-1]
		}
		w.ledgers[commits], w.lag[commits] = was, lagNothing
		w.ledgers[commits].own = false
		for i := commits; i < maxLedgers; i++ {
			switch {
			case r.began:
				w.lag[i] = lagEpoch
			case r.version && w.lag[i] == lagNothing && w.ledgers[i].exists:
				w.lag[i] = lagVersion
			}
		}
	}
	name, names := uint8(0), uint8(0) // of the ledger's epoch, and of all
	known := false
	w.readers(func(o *reader) {
		names = max(names, o.epoch)
		if keeps {
			copy(o.relation[commits+1:], o.relation[commits:])
			o.relation[commits] = o.relation[current]
		}
		to := &o.relation[current]
		switch {
		case !o.known:
		case r.began && here(*to):
			if *to == beyond || r.restored {
				*to = pastBeyond
			} else {
				*to = pastWithin
			}
		case r.began && *to == unknown && relation == unknown && epoch != 0 && o.epoch == epoch:
			*to = pastBeyond
		case r.told && here(*to):
			*to = behind
		case r.version && *to == beyond:
			*to = within
		}
		if o.known && here(*to) {
			name, known = o.epoch, true
		}
	})
	if !known {
		name = names + 1
	}
	removed := was.members &^ r.ledger.members
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		p.knew |= p.knows & removed
		p.knows &^= removed
		if here(p.at.relation[current]) {
			p.holder.fresh &= r.ledger.members
			if id < maxIDs {
				p.holder.fresh &^= one(id)
			}
		}
		if self := m.o.id(i, p); p.expired && removed.has(self) {
			p.declared = true
		}
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists && here(f.at.relation[current]) {
			f.report.fresh &= r.ledger.members
			if id < maxIDs {
				f.report.fresh &^= one(id)
			}
		}
	}
	at := reader{known: true, epoch: name}
	at.relation[current] = within
	for i := commits; i < maxLedgers && keeps; i++ {
		switch {
		case !w.ledgers[i].exists:
		case w.lag[i] == lagNothing:
			at.relation[i] = within
		case w.lag[i] == lagVersion:
			at.relation[i] = beyond
		}
	}
	return at
}
