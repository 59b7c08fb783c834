package pool

import (
	"math"
	"slices"

	"pgregory.net/rapid"
)

// modelVariant is a variant that a pool knows of.
type modelVariant struct {
	name   string
	kept   bool // some are to be warm
	usedAt Instant
}

var modelNames = []string{"", "a", "b", "c"}

// name draws the variant that a client needs.
func (m *model) name(t *rapid.T) string {
	if !m.variants {
		return ""
	}
	return rapid.SampledFrom(modelNames).Draw(t, "variant")
}

func (p *modelPool) of(variant string, states ...State) (n int) {
	for _, s := range p.slots {
		if s.variant == variant && s.probed == nil && slices.Contains(states, s.state) {
			n++
		}
	}
	return n
}

// newest returns the idle slot of a variant that was used last, or nil.
func (p *modelPool) newest(variant string) (newest *modelSlot) {
	for _, s := range p.idle {
		if s.variant == variant {
			newest = s
		}
	}
	return newest
}

// know returns what the pool knows of a variant.
func (p *modelPool) know(name string) *modelVariant {
	for _, v := range p.known {
		if v.name == name {
			return v
		}
	}
	v := &modelVariant{name: name}
	p.known = append(p.known, v)
	return v
}

// tidy forgets the variants of which nothing is left.
func (p *modelPool) tidy() {
	p.known = slices.DeleteFunc(p.known, func(v *modelVariant) bool {
		return v.name != "" && !v.kept && !slices.ContainsFunc(p.slots, func(s *modelSlot) bool { return s.variant == v.name })
	})
}

// kept returns the variants of which some are to be warm, the one used last first.
func (p *modelPool) kept() (kept []*modelVariant) {
	for _, v := range p.known {
		if v.kept {
			kept = append(kept, v)
		}
	}
	slices.SortStableFunc(kept, func(a, b *modelVariant) int { return int(b.usedAt - a.usedAt) })
	return kept
}

// use notes that a client came for a variant.
func (m *model) use(p *modelPool, name string) {
	if p.settings.Variants == 0 {
		return
	}
	v := p.know(name)
	v.kept, v.usedAt = true, m.now
	p.limitKept(v)
}

func (p *modelPool) limitKept(but *modelVariant) {
	for len(p.kept()) > max(p.settings.Variants, 1) {
		var least *modelVariant
		for _, v := range p.known {
			if v.kept && v != but && (least == nil || v.usedAt < least.usedAt) {
				least = v
			}
		}
		least.kept = false
	}
	p.tidy()
}

// warm returns how many connections of a variant are to be kept ready.
func (p *modelPool) warm(name string) int {
	kept, warm := p.kept(), p.settings.Warm
	rank := slices.IndexFunc(kept, func(v *modelVariant) bool { return v.name == name })
	switch {
	case rank < 0:
		return 0
	case len(kept) > warm && rank < warm:
		return 1
	case len(kept) > warm:
		return 0
	}
	share, place := warm/len(kept), 0
	for _, v := range p.known { // in the order in which the pool came to know them
		if v.name == name {
			break
		}
		if v.kept {
			place++
		}
	}
	if place < warm%len(kept) {
		share++
	}
	return share
}

// lacking returns the variant of which a warm connection is to be dialed.
func (p *modelPool) lacking() (string, bool) {
	if p.passive {
		return "", false
	}
	for _, v := range p.kept() {
		if p.of(v.name, Dialing, Idle) < p.warm(v.name) {
			return v.name, true
		}
	}
	return "", false
}

// undialed returns the clients for whom no connection is being dialed, in their order.
func (m *model) undialed() (found []*modelClient) {
	coming := make(map[string]int)
	for _, p := range m.pools {
		if p.leasable() {
			for _, name := range modelNames {
				coming[name] += p.of(name, Dialing)
			}
		}
	}
	for _, w := range m.inOrder() {
		if coming[w.waiter.Variant]--; coming[w.waiter.Variant] < 0 {
			found = append(found, w)
		}
	}
	return found
}

// crowdedOut returns the clients that need a place which no pool has, nor makes.
func (m *model) crowdedOut() []*modelClient {
	making := 0
	for _, p := range m.pools {
		if p.dialsForClients() {
			return nil
		}
		if p.leasable() && p.dialable {
			making += max(0, min(p.count(Retiring), p.cap()-p.count(Dialing, Idle, Leased, Resetting)))
		}
	}
	all := m.undialed()
	return all[min(making, len(all)):]
}

// canDisplace: an idle connection of the pool can make room for another.
func (p *modelPool) canDisplace() bool {
	return len(p.idle) > 0 && p.leasable() && p.dialable && p.count(Dialing, Idle, Leased, Resetting) <= p.cap()
}

// displaces: it is the one to do that.
func (m *model) displaces(p *modelPool) bool {
	if !p.canDisplace() || len(m.crowdedOut()) == 0 || !slices.Contains(m.pools, p) {
		return false
	}
	for _, other := range m.pools {
		if other.canDisplace() && other.lessLoaded(other.afterDial(), p, p.afterDial()) {
			return false
		}
	}
	return true
}

// passed returns the client that waits for a place which a connection of p would make, if that is leased to a client
// that came later: to w, or to one that has just come for nil.
func (m *model) passed(p *modelPool, w *modelClient) *modelClient {
	if out := m.crowdedOut(); len(out) > 0 && p.canDisplace() {
		order := m.inOrder()
		if after := slices.Index(order, w); after < 0 || slices.Index(order, out[0]) < after {
			return out[0]
		}
	}
	return nil
}

// held returns how many of the pools that could serve a client of a variant must not, and how many could.
func (m *model) held(variant string, w *modelClient) (held, all int) {
	for _, p := range m.candidates(variant) {
		all++
		if first := m.passed(p, w); first != nil && first.passed == m.group.maxOvertaken {
			held++
		}
	}
	return held, all
}

// candidates returns the pools that a connection may be leased from.
func (m *model) candidates(variant string) (found []*modelPool) {
	for _, p := range m.pools {
		if p.ready(variant) {
			found = append(found, p)
		}
	}
	if m.balance != LeastLoaded {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(p *modelPool) bool {
		return slices.ContainsFunc(found, func(other *modelPool) bool {
			return other.lessLoaded(other.count(Leased, Resetting)+1, p, p.count(Leased, Resetting)+1)
		})
	})
}

// waits reports whether a client waits for a variant.
func (m *model) waits(variant string) bool {
	return slices.ContainsFunc(m.waiting, func(w *modelClient) bool { return w.waiter.Variant == variant })
}

func (m *model) expect(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	name := m.name(t)
	p.KeepWarm(name)
	m.use(p, name)
	m.serve(t)
}

func (m *model) forget(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	unused := m.now - Instant(rapid.IntRange(-1, 10).Draw(t, "for"))
	p.Forget(unused)
	p.informed = false // it is the worker who forgets, before it looks
	defer m.serve(t)
	if p.settings.Variants == 0 {
		return
	}
	for i, v := range p.kept() {
		v.kept = i == 0 || v.usedAt >= unused
	}
	p.tidy()
}

func (m *model) setCeiling(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.ceiling = rapid.IntRange(0, 5).Draw(t, "ceiling")
	p.SetCeiling(p.ceiling)
	m.serve(t)
}

// cap returns how many connections there may be now.
func (p *modelPool) cap() int {
	if p.settings.Shared {
		return min(p.size(), p.settings.Grant)
	}
	return p.size()
}

// setGrant is what a ledger does, at any moment.
func (m *model) setGrant(t *rapid.T) {
	p := draw(t, "pool", m.pools)
	p.settings.Shared, p.settings.Grant = true, rapid.IntRange(0, 5).Draw(t, "grant")
	p.Set(p.settings)
	m.serve(t)
}

// size returns how many connections the server accepts now.
func (p *modelPool) size() int {
	if p.ceiling > 0 {
		return min(p.ceiling, p.settings.Cap)
	}
	return p.settings.Cap
}

// checkVariants: what is said of each variant is so, and no more are known than may be.
func (m *model) checkVariants(t *rapid.T, p *modelPool) {
	var want []VariantStats
	for _, v := range p.known {
		total := 0
		for _, s := range p.slots {
			if s.variant == v.name {
				total++
			}
		}
		if v.kept || total > 0 {
			want = append(want, VariantStats{Variant: v.name, Warm: p.warm(v.name), Dialing: p.of(v.name, Dialing), Idle: p.of(v.name, Idle), Total: total})
		}
	}
	if got := p.Variants(); !slices.Equal(got, want) {
		t.Fatalf("variants %+v; want %+v", got, want)
	}
	if kept := len(p.kept()); kept > max(p.settings.Variants, 1) {
		t.Fatalf("%d variants are kept warm; at most %d may be", kept, p.settings.Variants)
	}
	warm := 0
	for _, v := range want {
		warm += v.Warm
	}
	if warm > p.settings.Warm || len(p.kept()) > 0 && warm < p.settings.Warm {
		t.Fatalf("%d are to be warm of all variants; want %d", warm, p.settings.Warm)
	}
}

// goHome ends all sessions, one by one, and sees that no client waits in the end that can be served.
func (m *model) goHome(t *rapid.T) {
	m.resume(t)
	for {
		m.comeToRest(t)
		for len(m.handed) > 0 {
			m.taken(m.handed[0], <-m.handed[0].waiter.Ready())
		}
		i := -1
		var session *modelSlot
		for _, p := range m.all {
			if i = slices.IndexFunc(p.slots, func(s *modelSlot) bool { return s.held }); i >= 0 {
				session = p.slots[i]
				break
			}
		}
		if session == nil {
			break
		}
		session.slot.Return(session.sessions)
		session.pool.totals.Returned++
		m.rest(t, session)
	}
	for _, p := range m.pools {
		if p.leasable() && p.dialable && len(m.inOrder()) > 0 {
			t.Fatalf("%d clients wait for ever beside %+v", len(m.waiting), p.Stats())
		}
	}
	for _, p := range m.all {
		for _, s := range p.slots {
			if s.state != Idle {
				t.Fatalf("a slot is %v when all has come to its end", s.state)
			}
		}
	}
}

// longAgo is before all time.
const longAgo = Instant(math.MinInt64)
