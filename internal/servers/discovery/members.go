package discovery

import (
	"net/netip"
	"slices"
)

const (
	// maxServers is how many servers a name stands for at most.
	maxServers = 256
	// minMissing is the number of answers in a row in which a server must be missing before it goes.
	minMissing = 3
	// maxMissing is that number at most, however irregular the answers are. After that many answers without a return, too, the longest
	// absence is forgotten.
	maxMissing = 60
)

// members are the servers of one name, as answers tell. It does no I/O and has no clock.
//
// Some DNS servers answer with some of the addresses only, each time another one: Consul by default, or a list in turn. A server
// therefore goes when it was missing in several answers in a row, and in twice as many as any server was missing that came back.
type members struct {
	sure    bool // static; answers have all servers, so one that is missing goes
	known   map[netip.AddrPort]*member
	absence int // the longest after which a server came back, in answers
	quiet   int // answers since a server came back
}

// member is a server that is in force, or was until lately.
type member struct {
	server  Server
	missing int // answers in a row without it
	isIn    bool
}

// answer takes one answer, which is not empty, in order and without duplicates. It returns whether the servers in force have changed, and
// those of the answer that are too many.
func (m *members) answer(servers []Server) (changed bool, surplus []Server) {
	if m.known == nil {
		m.known = make(map[netip.AddrPort]*member)
	}
	for _, known := range m.known {
		known.missing++
	}
	m.quiet++
	var fresh []*member
	for _, s := range servers {
		known := m.known[s.Address]
		if known == nil {
			fresh = append(fresh, &member{server: s})
			continue
		}
		if known.missing > 1 {
			m.absence, m.quiet = max(m.absence, known.missing-1), 0
		}
		known.missing = 0
		if known.server != s {
			known.server = s
			changed = changed || known.isIn
		}
		if !known.isIn {
			fresh = append(fresh, known)
		}
	}
	if m.quiet > maxMissing {
		m.absence = 0
	}
	changed = m.remove() || changed
	return m.admit(fresh) || changed, m.refused(fresh)
}

// remove removes servers that are missing for too long.
func (m *members) remove() (changed bool) {
	enough := min(max(minMissing, 2*m.absence), maxMissing)
	if m.sure {
		enough = 1
	}
	for address, known := range m.known {
		if known.isIn && known.missing >= enough {
			known.isIn, changed = false, true
		}
		if known.missing > maxMissing {
			delete(m.known, address)
		}
	}
	return changed
}

// admit lets servers in as long as there is room: those in force stay, and others follow in the order of their addresses, so that one
// answer with too many addresses and the next lead to the same servers.
func (m *members) admit(fresh []*member) (changed bool) {
	room := maxServers
	for _, known := range m.known {
		if known.isIn {
			room--
		}
	}
	for _, f := range fresh[:min(len(fresh), max(room, 0))] {
		f.isIn, changed = true, true
		m.known[f.server.Address] = f
	}
	return changed
}

// refused returns those that admit did not let in.
func (m *members) refused(fresh []*member) (surplus []Server) {
	for _, f := range fresh {
		if !f.isIn {
			surplus = append(surplus, f.server)
		}
	}
	return surplus
}

// list returns the servers in force, in order.
func (m *members) list() []Server {
	list := make([]Server, 0, len(m.known))
	for _, known := range m.known {
		if known.isIn {
			list = append(list, known.server)
		}
	}
	slices.SortFunc(list, func(a, b Server) int { return a.Address.Compare(b.Address) })
	return list
}
