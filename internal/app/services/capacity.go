package services

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
)

// This file follows what servers publish of their capacity. Each proxy reads it for itself. The pool keeps to it within the cap, and where places
// are shared, the proxy claims no larger cap than it has read: the ledger uses the least that any proxy claims.

// published is what a proxy knows of a server's capacity. It is guarded by Services.mu.
type published struct {
	kept   capacity.Kept
	asked  bool      // a reading has been tried
	at     time.Time // of the last good reading; zero for none yet
	open   int       // connections of this proxy at that time
	reason string    // why the last reading was no good; empty if it was
	since  time.Time // when reason was empty last

	changed time.Time // when the ceiling became what it is
}

// ceiling returns how many connections a backend may have at present, as its server publishes; 0 for its cap. Until the first reading is done, it
// is one: the server may take far fewer than the cap.
func (m *member) ceiling() int {
	switch {
	case !m.plan.Auto():
		return 0
	case !m.published.asked:
		return 1
	}
	return m.published.kept.Ceiling(m.plan.Cap())
}

// limit returns how many connections to its server a backend may have at present: its ceiling, or the cap.
func (m *member) limit() int {
	if n := m.ceiling(); n > 0 {
		return n
	}
	return m.plan.Cap()
}

// claimedCap returns how many connections all proxies together may have to the server, as far as this one knows. Until the first reading is done, it
// is 0: the proxy takes no more places than its clients need, and makes others give back none.
func (m *member) claimedCap() int {
	if m.plan.Auto() && !m.published.asked {
		return 0
	}
	return m.limit()
}

// readings are those of one backend's server.
type readings struct {
	s *Services
	m *member
}

// CapacityRead implements [backend.CapacityTaker].
func (to readings) CapacityRead(r capacity.Reading, held int, err error) {
	s, m := to.s, to.m
	s.mu.Lock()
	claimed := m.claimedCap()
	defer func() {
		demand := m.claimedCap() != claimed && s.o.Demand != nil
		s.unlock()
		if demand { // the ledger hears of it immediately
			s.o.Demand()
		}
	}()
	p, now := &m.published, time.Now()
	ceiling, before := m.ceiling(), p.kept.Last
	if err == nil {
		open := held
		for _, other := range s.servers[m.server] {
			if book := other.Stats(); other != m && other.server == m.server {
				open += book.Used()
			}
		}
		if err = p.kept.Take(r, open+s.othersOpen(m.server), m.plan.Cap()); err == nil {
			p.at, p.open = now, open
		}
	}
	p.asked = true
	switch {
	case err == nil && p.reason != "" && m.plan.Auto():
		s.logLater("the server's capacity can be read again", "backend", m.Name())
	case err != nil && p.reason == "":
		if p.since = now; m.plan.Auto() {
			name, reason := m.Name(), err.Error()
			s.pendingLogs = append(s.pendingLogs, func() {
				s.o.Log.Warn("the server's capacity cannot be read, the last value holds", "backend", name, "reason", reason)
			})
		}
	}
	if p.reason = ""; err != nil {
		p.reason = err.Error()
	}
	if m.ceiling() == ceiling {
		return
	}
	p.changed = now
	m.Set(s.sizes(m))
	if total := p.kept.Last.Total; total > 0 && total != before.Total {
		s.logLater("backend follows the capacity that its server publishes", "backend", m.Name(), "connections", m.ceiling(), "total", total)
	}
}

// othersOpen returns how many connections the other proxies have to a server: as many as when they last read its capacity, or as their sessions have
// used since, as far as the ledger knows.
func (s *Services) othersOpen(server string) (open int) {
	account := s.accounts[server]
	if account == nil {
		return 0
	}
	for i := range account.Grants {
		if c := &account.Grants[i].Claim; account.Grants[i].Proxy != s.ledger.Self {
			open += max(c.Open, c.Needs-c.Waiting)
		}
	}
	return open
}

// explainCeiling says that a backend has no more connections because of what its server publishes, unless something else lets it have fewer.
func (m *member) explainCeiling(b *api.Backend) {
	n, p := m.ceiling(), &m.published.kept
	if n == 0 || n >= b.Cap || !m.published.asked || b.CeilingCause != "" && b.Ceiling < n {
		return
	}
	b.CeilingCause, b.CeilingSince, b.CeilingReason = "published", m.published.changed, fmt.Sprintf("it publishes that it takes %d", p.Last.Total)
	if p.Last.Total <= 0 {
		b.CeilingReason = "it publishes no limit"
	}
	if p.Strangers > 0 {
		b.CeilingReason += fmt.Sprintf(", and others than these proxies have %d", p.Strangers)
	}
}

// publishedOf returns what is known of a server's capacity; nil for nothing.
func publishedOf(m *member) *api.Published {
	p := &m.published
	if p.at.IsZero() && (!m.plan.Auto() || p.reason == "") {
		return nil
	}
	shown := &api.Published{Followed: m.plan.Auto(), At: p.at}
	if !p.at.IsZero() {
		if shown.Total = max(0, p.kept.Last.Total); p.kept.Last.Used != capacity.Unknown {
			used := p.kept.Last.Used
			shown.Used, shown.Strangers = &used, p.kept.Strangers
		}
	}
	if p.reason != "" {
		shown.Reason, shown.Since = p.reason, p.since
	}
	return shown
}
