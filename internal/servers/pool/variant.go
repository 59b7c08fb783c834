package pool

import (
	"slices"
	"strings"
)

// variant is a pool's connections that were dialed with the same parameters of clients. Only a client with these parameters can use
// them; the pool knows just their name. All of it is guarded by the group's mutex.
type variant[C any] struct {
	name           string
	oldest, newest *Slot[C] // idle slots, in the order in which they became idle
	idle           int
	outdated       int // of them, see Pool.Renew
	coming         int // slots whose connections are being dialed
	unclaimed      int // of these, what clients ahead do not wait for; only within [Group.undialed]
	slots          int // that are not gone
	// keptWarm tells that connections are keptWarm warm: it is one of those requested last.
	keptWarm    bool
	requestedAt Instant // when a client last requested it
}

// TransientPrefix begins the names of variants of which no connection is kept warm, since few clients will ever request them.
const TransientPrefix = "~"

// VariantStats is a variant at one instant.
type VariantStats struct {
	Variant string
	Warm    int // idle connections kept ready
	Dialing int
	Idle    int
	// Outdated is how many of the idle ones are to be replaced, see [Pool.Renew].
	Outdated int
	Total    int // in any state
}

// Variants returns the numbers of each variant.
func (p *Pool[C]) Variants() []VariantStats {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	var all []VariantStats
	for _, v := range p.variants {
		if v.keptWarm || v.slots > 0 {
			all = append(all, VariantStats{v.name, p.warmOf(v), v.coming, v.idle, v.outdated, v.slots})
		}
	}
	return all
}

// KeepWarm keeps connections of the variant warm as if a client had requested it, for variants that are expected.
func (p *Pool[C]) KeepWarm(variant string) {
	p.group.mu.Lock()
	if p.maxVariants > 0 {
		p.requested(p.findOrAdd(variant))
	}
	p.group.unlock(p, whenDue)
}

// Forget stops keeping connections warm of variants that no client has requested since then, except for the one requested last.
// Their connections become surplus. Forget sends no signal: the worker calls it before it looks for surplus.
func (p *Pool[C]) Forget(unused Instant) {
	p.group.mu.Lock()
	if p.maxVariants > 0 {
		last := p.lastRequested()
		for _, v := range slices.Clone(p.variants) {
			if v.keptWarm && v != last && v.requestedAt < unused {
				v.keptWarm = false
				p.forgetUnused(v)
			}
		}
	}
	p.group.unlock(p, never)
}

// The functions below are called with the mutex held.

// hasNoVariants tells that the pool has connections of the variant "" only, as nearly all pools have.
func (p *Pool[C]) hasNoVariants() bool { return len(p.variants) == 1 && p.maxVariants == 0 }

// find returns the variant of that name, or nil.
func (p *Pool[C]) find(name string) *variant[C] {
	if name == "" {
		return &p.base
	}
	for _, v := range p.variants[1:] {
		if v.name == name {
			return v
		}
	}
	return nil
}

// findOrAdd returns the variant of that name, and adds it if it is not known.
func (p *Pool[C]) findOrAdd(name string) *variant[C] {
	v := p.find(name)
	if v == nil {
		v = &variant[C]{name: name}
		p.variants = append(p.variants, v)
	}
	return v
}

// forgetUnused removes a variant that has no slots and is not kept warm.
func (p *Pool[C]) forgetUnused(v *variant[C]) {
	if v.slots == 0 && !v.keptWarm && v != &p.base {
		p.variants = slices.DeleteFunc(p.variants, func(other *variant[C]) bool { return other == v })
	}
}

// requested notes that a client requests the variant. If too many variants are kept warm then, the one that was requested longest ago
// no longer is.
func (p *Pool[C]) requested(v *variant[C]) {
	if p.maxVariants == 0 {
		return
	}
	v.requestedAt = p.group.now()
	if strings.HasPrefix(v.name, TransientPrefix) {
		return
	}
	v.keptWarm = true
	p.limitKeptWarm(v)
}

// limitKeptWarm stops keeping the variants warm that are too many. It spares last, unless that is nil.
func (p *Pool[C]) limitKeptWarm(last *variant[C]) {
	for p.countKeptWarm() > max(p.maxVariants, 1) {
		var least *variant[C]
		for _, v := range p.variants {
			if v.keptWarm && v != last && (least == nil || v.requestedAt < least.requestedAt) {
				least = v
			}
		}
		least.keptWarm = false
		p.forgetUnused(least)
	}
}

// countKeptWarm returns how many variants are kept warm.
func (p *Pool[C]) countKeptWarm() (n int) {
	for _, v := range p.variants {
		if v.keptWarm {
			n++
		}
	}
	return n
}

// lastRequested returns the variant that was requested last of those kept warm, or the one without a name.
func (p *Pool[C]) lastRequested() *variant[C] {
	last := &p.base
	for _, v := range p.variants {
		if v.keptWarm && (!last.keptWarm || v.requestedAt > last.requestedAt) {
			last = v
		}
	}
	return last
}

// warmOf returns how many idle connections of a variant are kept ready: all variants that are kept warm have an equal share of the warm
// connections. If there are fewer connections than variants, those requested last have one each.
func (p *Pool[C]) warmOf(v *variant[C]) int {
	if p.hasNoVariants() {
		return p.warm
	}
	if !v.keptWarm {
		return 0
	}
	before, later := 0, 0 // how many are listed before it; how many were requested later
	i := slices.Index(p.variants, v)
	for j, other := range p.variants {
		switch {
		case !other.keptWarm || j == i:
			continue
		case j < i:
			before++
		}
		if other.requestedAt > v.requestedAt || other.requestedAt == v.requestedAt && j < i {
			later++
		}
	}
	n := p.countKeptWarm()
	switch {
	case n > p.warm && later < p.warm:
		return 1
	case n > p.warm:
		return 0
	case before < p.warm%n: // in the order of the list: in the order of requests, the remainder would move with each lease
		return p.warm/n + 1
	}
	return p.warm / n
}

// surplusOf returns how many more idle connections of a variant there are than are kept warm; negative when some are missing. Outdated ones
// do not count.
func (p *Pool[C]) surplusOf(v *variant[C]) int { return v.coming + v.idle - v.outdated - p.warmOf(v) }

// variantToPredial returns the variant of which a warm connection is to be dialed: the one requested last of those that miss some.
func (p *Pool[C]) variantToPredial() (next *variant[C]) {
	if !p.predial {
		return nil
	}
	for _, v := range p.variants {
		if (next == nil || v.requestedAt > next.requestedAt) && p.surplusOf(v) < 0 {
			next = v
		}
	}
	return next
}

// compareWarm reports whether warm connections are missing of any variant, and whether more are idle of any than are kept warm.
func (p *Pool[C]) compareWarm() (tooFew, tooMany bool) {
	if p.hasNoVariants() {
		n := p.base.coming + p.base.idle - p.base.outdated
		return n < p.warm && p.predial, n > p.warm
	}
	for _, v := range p.variants {
		surplus := p.surplusOf(v)
		tooFew = tooFew || surplus < 0 && p.predial
		tooMany = tooMany || surplus > 0 && v.idle > v.outdated
	}
	return tooFew, tooMany
}

// oldest returns the slot that has been idle longest, of the variants for which f is true; a nil f is for all. It returns nil for none.
func (p *Pool[C]) oldest(f func(*variant[C]) bool) (oldest *Slot[C]) {
	for _, v := range p.variants {
		if s := v.oldest; s != nil && (oldest == nil || s.idleOrder < oldest.idleOrder) && (f == nil || f(v)) {
			oldest = s
		}
	}
	return oldest
}
