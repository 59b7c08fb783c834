package explore

import "slices"

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
			*p = proxy{generation: p.generation + 1, holder: holder{whole: true}}
			if m.beside != nil {
				m.beside.restart(i)
			}
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
	for id := range uint8(maxIDs) {
		if !w.ledgers[current].members.has(id) {
			continue
		}
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
		if m.beside != nil {
			m.beside.forget(id)
		}
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
		if m.beside != nil {
			m.beside.database(lost)
		}
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
		if m.beside != nil {
			m.beside.back()
		}
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
				if m.beside != nil {
					m.beside.expire(i, uint8(used))
				}
				m.add("the time-out of %s passes, which has %d connections", i, used)
			}
		}
	}
	if w.left.total > 0 && w.left.crashes > 0 {
		m.begin(w)
		m.to.proxies[i] = proxy{dead: true, generation: p.generation}
		m.to.left.total--
		m.to.left.crashes--
		if m.beside != nil {
			m.beside.crash(i)
		}
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
	return here(p.at.relation[current]) && !p.holder.whole && l.members.has(id) && l.said[id] == saidHere
}

// maySettle reports whether a lease time can have passed since the epoch began, as process i says. Within one, each living process that can
// reach the database has made an exchange. Those that have not were cut off; cuts are the slots of them for which that is not known yet. One that
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
			knows := q.knows | q.knew&^w.ledgers[current].departed // if it was removed, whoever has not seen it since knows nothing of its coming back
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
			if m.beside != nil {
				m.beside.arrive(i)
			}
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
			m.rest(j, p.may())
			if m.beside != nil {
				m.beside.arrive(i)
			}
			m.add("the delayed answer to %s arrives", -1-int(f.report.id))
		}
		return
	}
	m.begin(w)
	m.land(i)
	if m.beside != nil {
		m.beside.arrive(i)
	}
	m.add("the delayed answer to %s arrives, which has ended", -1-int(f.report.id))
}

// land removes what was under way.
func (m *machine) land(i int) {
	f := &m.to.flights
	copy(f[i:], f[i+1:])
	f[maxFlights-1] = flight{}
}
