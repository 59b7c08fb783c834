package explore

import (
	"slices"
)

// step takes all steps from a world: it calls m.add for each world that follows.
func (m *machine) step(w *world) {
	o := m.o
	for i := range o.Proxies {
		if !w.proxies[i].dead {
			m.exchanges(w, i)
			m.faults(w, i)
			continue
		}
		if w.left.restarts > 0 {
			m.begin(w)
			m.to.left.restarts--
			p := &m.to.proxies[i]
			*p = proxy{generation: p.generation + 1, holder: holder{needsFull: true}}
			m.beside.restart(i)
			m.add("%s starts", i)
		}
	}
	for i := range w.flights {
		if w.flights[i].exists {
			m.arrive(w, i)
		}
	}
	m.databases(w)
	if w.left.total == 0 || w.left.forgets == 0 {
		return
	}
	for id := range w.ledgers[current].members.all() {
		to := m.orders[0].forget(&w.ledgers[current], id, o.Cap) // nothing here depends on the order of equals
		m.begin(w)
		m.to.left.total--
		m.to.left.forgets--
		m.commit(&to, unknown, 0, maxIDs)
		for i := range o.Proxies {
			if p := &m.to.proxies[i]; o.id(i, p) == id {
				p.declared = !p.dead
			}
		}
		m.beside.forget(id)
		m.add("an operator forgets %s", -1-int(id))
	}
}

// databases lets the database become another.
func (m *machine) databases(w *world) {
	if w.left.total == 0 || w.left.databases == 0 {
		return
	}
	for lost := range 1 + m.o.Faults.Lost {
		if lost > 0 && !w.ledgers[commits+lost-1].exists {
			break
		}
		m.begin(w)
		c := m.to
		c.left.total--
		c.left.databases--
		c.ledgers[old] = w.ledgers[current]
		if lost > 0 {
			c.ledgers[current] = w.ledgers[commits+lost-1]
		}
		c.ledgers[current].own = false
		c.readers(func(r *reader) {
			r.relation[old] = r.relation[current]
			if lost > 0 {
				r.relation[current] = r.relation[commits+lost-1]
			}
		})
		for i := range maxCommits {
			c.drop(commits + i)
		}
		m.beside.database(lost)
		m.add("the database is another, without the last %d commits", lost)
	}
	if w.ledgers[old].exists && m.allMovedOn(w) {
		m.begin(w)
		c := m.to
		c.left.total--
		c.left.databases--
		c.left.restarts = 0
		c.ledgers[current] = w.ledgers[old]
		c.readers(func(r *reader) { r.relation[current] = r.relation[old] })
		for i := old; i < maxLedgers; i++ { // an old database comes back once
			c.drop(i)
		}
		m.beside.back()
		m.add("the old database is back")
	}
}

// allMovedOn reports whether all living processes have heard of an epoch that the old database never had. If it came back to serve others,
// nothing could tell them: that is why a failover must fence the old database off.
func (m *machine) allMovedOn(w *world) bool {
	return !slices.ContainsFunc(w.proxies[:m.o.Proxies], func(p proxy) bool { return !p.dead && (!p.at.known || p.at.relation[old] != unknown) })
}

// faults takes what can go wrong with a process.
func (m *machine) faults(w *world, i int) {
	p := &w.proxies[i]
	cuts := uint8(1)
	if p.cut {
		cuts = 0
	}
	if !p.expired && w.left.total > cuts && w.left.cuts >= cuts && w.left.timeouts > 0 && p.at.known {
		for used := range int(p.may()) + 1 {
			for _, n := range m.orders {
				m.begin(w)
				if !p.cut {
					m.cutOff(i)
				}
				q := &m.to.proxies[i]
				q.expired = true
				q.holder = n.expire(p, m.o.id(i, p), used, m.o.Cap)
				if int(q.holder.limit) > used {
					m.wrong("%s may use %d places after its time-out, and uses %d", i, int(q.holder.limit), used)
				}
				q.used = uint8(used)
				m.to.left.total--
				m.to.left.timeouts--
				m.beside.expire(i, uint8(used))
				m.add("the time-out of %s passes, which has %d connections", i, used)
			}
		}
	}
	if w.left.total > 0 && w.left.crashes > 0 {
		m.begin(w)
		m.to.proxies[i] = proxy{dead: true, generation: p.generation}
		m.to.left.total--
		m.to.left.crashes--
		m.beside.crash(i)
		m.add("%s crashes", i)
	}
}

// cutOff says that a process has been cut off from the database since its last exchange. That is not a step by itself: until something depends on it,
// a process that is cut off is one that makes no exchange, which every process may do at any time. The cut ends with its next exchange.
func (m *machine) cutOff(i int) {
	m.to.proxies[i].cut = true
	m.to.left.total--
	m.to.left.cuts--
}

// joined reports whether the ledger knows, in its epoch, what a process holds.
func (m *machine) joined(w *world, i int) bool {
	p, l := &w.proxies[i], &w.ledgers[current]
	id := m.o.id(i, p)
	return here(p.at.relation[current]) && !p.holder.needsFull && l.members.has(id) && l.reported[id] == reportedHere
}

// maySettle reports whether a lease time can have passed since the epoch began, as process i says. Within one, each living process that can
// reach the database has made an exchange. Those that have not were cut off; cuts are the positions of those for which that is not known yet. One that
// was, and that the ledger does not know, is assumed to be known to one that was not.
func (m *machine) maySettle(w *world, i int) (may bool, cuts ids) {
	n := uint8(0)
	for j := range m.o.Proxies {
		p := &w.proxies[j]
		if p.dead || !p.at.known || !p.cut && m.joined(w, j) {
			continue
		}
		if j == i {
			return false, 0
		}
		if !p.cut {
			cuts |= one(uint8(j))
			n++
		}
		id := m.o.id(j, p)
		if w.ledgers[current].members.has(id) || p.may() == 0 || p.declared {
			continue
		}
		named := false
		for k := range m.o.Proxies {
			q := &w.proxies[k]
			knows := q.knows | q.knew&^w.ledgers[current].departed // if it was removed, a proxy that has not seen it since knows nothing of its coming back
			named = named || k != j && !q.dead && !q.cut && m.joined(w, k) && knows.has(id)
		}
		if !named {
			return false, 0
		}
	}
	return n <= min(w.left.total, w.left.cuts), cuts
}

// arrive lets a delayed report or answer arrive.
func (m *machine) arrive(w *world, i int) {
	f := w.flights[i]
	if !f.late {
		m.asked = question{ledger: w.ledgers[current], relation: f.at.relation[current], known: f.at.known, arrives: true, report: f.report}
		for _, r := range m.ask(&m.asked) {
			m.begin(w)
			m.land(i)
			m.commit(&r, f.at.relation[current], f.at.epoch, f.report.id)
			m.beside.arrive(i)
			m.add("a delayed report of %s arrives", -1-int(f.report.id))
		}
		return
	}
	for j := range m.o.Proxies {
		p := w.proxies[j]
		if p.dead || m.o.id(j, &p) != f.report.id {
			continue
		}
		for _, n := range m.orders {
			m.begin(w)
			m.land(i)
			q := &m.to.proxies[j]
			if h := n.late(&p, f.report.id, &f, m.o.Cap); h != p.holder {
				q.holder, q.at = h, f.at
			}
			m.setMost(j, p.may())
			m.beside.arrive(i)
			m.add("the delayed answer to %s arrives", -1-int(f.report.id))
		}
		return
	}
	m.begin(w)
	m.land(i)
	m.beside.arrive(i)
	m.add("the delayed answer to %s arrives, which has ended", -1-int(f.report.id))
}

// land removes what was under way.
func (m *machine) land(i int) {
	f := &m.to.flights
	copy(f[i:], f[i+1:])
	f[maxFlights-1] = flight{}
}

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
	if l := &w.ledgers[current]; p.at.known && !p.holder.settled && !p.holder.needsFull && here(p.at.relation[current]) && l.own {
		settles, cuts = m.maySettle(w, i)
	}
	ended := m.ended(w)
	for _, c := range m.choices(w, i) {
		m.exchange(w, i, c, false, 0, "an exchange")
		if settles {
			m.exchangeAfterLease(w, i, c, cuts)
		}
		for id := range p.holder.members.all() {
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
		m.setMost(i, most)
		m.beside.exchange(i, c, true, 0, answered)
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

// setMost notes how many connections the process had at most while its limit may have been lowered.
func (m *machine) setMost(i int, most uint8) { m.to.proxies[i].used = most }

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
		m.setMost(i, most)
		m.beside.exchange(i, c, false, timedOut, became)
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
		case r.accountChanged && here(*to):
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
