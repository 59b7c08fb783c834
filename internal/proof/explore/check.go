package explore

import "fmt"

// settleAccounts counts by how much the cap is exceeded since a process that was declared dead has come back. It only goes down, as places
// are given back.
func (m *machine) settleAccounts(w *world) {
	declared := w.excess > 0
	for i := range m.o.Proxies {
		declared = declared || w.proxies[i].declared
	}
	if !declared {
		return
	}
	beyond := func() uint8 { return uint8(max(0, m.charged(w)-m.o.Cap)) }
	l := &w.ledgers[current]
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		// An old report may bring it back before it has heard of the epoch. It says nothing about what the process has.
		if id := m.o.id(i, p); p.declared && l.members.has(id) && l.said[id] == saidHere && here(p.at.relation[current]) {
			p.declared = false
			w.excess = max(w.excess, beyond())
		}
	}
	w.excess = min(w.excess, beyond())
}

// charged is how many places are granted or may be used, apart from those of processes that were declared dead.
func (m *machine) charged(w *world) int {
	granted := w.ledgers[current].grants // all of them, also of processes that are gone
	sum := 0
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		id := m.o.id(i, p)
		if !p.declared {
			sum += int(max(p.may(), granted.of[id].places))
		}
		granted.of[id].places = 0
	}
	for id := range granted.of {
		sum += int(granted.of[id].places)
	}
	return sum
}

// check returns what is wrong in a world; empty if nothing is.
func (m *machine) check(w *world) string {
	sum := 0
	for i := range m.o.Proxies {
		if p := &w.proxies[i]; !p.declared {
			sum += int(p.may())
		}
	}
	if most := m.o.Cap + int(w.excess); sum > most {
		return fmt.Sprintf("there may be %d connections to a server with %d places", sum, most)
	}
	l := &w.ledgers[current]
	if !l.own {
		return "" // nobody has asked the new database yet
	}
	for i := range m.o.Proxies {
		p := &w.proxies[i]
		id := m.o.id(i, p)
		if p.dead || p.declared || !m.joined(w, i) {
			continue
		}
		if granted := l.grants.of[id].places; p.may() > granted {
			return m.text(w, "%s may have %d connections, and the ledger has %d places for it", []int{i, int(p.may()), int(granted)})
		}
	}
	return ""
}

// recovers reports what is wrong if, without further faults, places do not all become usable again, first by each process alone and
// then by all in fair parts.
func (m *machine) recovers(from *world) string {
	w := *from
	w.left = faults{}
	w.flights = [maxFlights]flight{}
	var living []int
	for i := range m.o.Proxies {
		if p := &w.proxies[i]; !p.dead {
			p.cut = false
			living = append(living, i)
		}
	}
	if len(living) == 0 {
		return ""
	}
	w.normalise(m.o)
	for _, one := range living {
		m.rounds(&w, living, func(i int) int {
			if i == one {
				return m.o.Cap
			}
			return 0
		})
		if n := int(w.proxies[one].holder.limit); n != m.o.Cap {
			return m.text(&w, "%s may use %d places of %d, although nobody else needs any", []int{one, n, m.o.Cap})
		}
	}
	m.rounds(&w, living, func(int) int { return m.o.Cap })
	sum := 0
	for _, i := range living {
		n := int(w.proxies[i].holder.limit)
		sum += n
		if n < m.o.Cap/len(living) {
			return m.text(&w, "%s may use %d places of %d, although it needs all", []int{i, n, m.o.Cap})
		}
	}
	if sum != m.o.Cap {
		return fmt.Sprintf("all may use %d places of %d, although they need them", sum, m.o.Cap)
	}
	return ""
}

// rounds lets all living processes make exchanges, and close what they have above their limits, until nothing changes any more.
func (m *machine) rounds(w *world, living []int, demand func(i int) int) {
	for range 10 {
		before := *w
		for _, i := range living {
			p := &w.proxies[i]
			settles, cuts := m.maySettle(w, i)
			c := choice{used: min(p.used, p.holder.limit), demand: uint8(demand(i)), proven: p.holder.members & m.ended(w)}
			q := m.question(w, i, c)
			q.waits = settles && cuts == 0
			q.simplify()
			r := m.answers(q)[0] // that of the order that IDs keep from now on
			m.complete(&r, w, i)
			m.begin(w)
			m.to.proxies[i].used = c.used
			m.answered(i, &r)
			m.settleAccounts(m.to)
			m.to.normalise(m.o)
			m.to.nameEpochs()
			*w = *m.to
		}
		if *w == before {
			return
		}
	}
}
