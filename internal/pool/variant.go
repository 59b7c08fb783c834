package pool

import (
	"slices"
	"strings"
)

// variant is what a pool knows of the connections of one variant: of those that were dialed with the same parameters, which
// only a client that asks for these parameters can use. The pool knows nothing of their meaning. Guarded by the group's
// mutex.
type variant[C any] struct {
	name           string
	oldest, newest *Slot[C] // idle slots, in the order of use
	idle           int
	outdated       int // of them, see Pool.Renew
	coming         int // slots whose connections are being dialed
	slots          int // that are not gone
	// keptWarm tells that connections are keptWarm warm: it is one of those used last.
	keptWarm    bool
	requestedAt Instant // a client came for it
}

// TransientPrefix begins the names of variants of which no connection is kept warm, since only one client, or few, will ever ask for
// them.
const TransientPrefix = "~"

// VariantStats is what there is of a variant at one instant.
type VariantStats struct {
	Variant string `json:"variant"`
	Warm    int    `json:"warm"` // connections kept ready beside those in use
	Dialing int    `json:"dialing"`
	Idle    int    `json:"idle"`
	// Outdated is how many of the idle ones are to be replaced, see [Pool.Renew].
	Outdated int `json:"outdated,omitempty"`
	Total    int `json:"total"` // in any state
}

// Variants returns what there is of each variant that the pool knows.
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

// KeepWarm has the pool keep connections of the variant warm, as if a client had come for it: for those that are wanted before
// the first client comes.
func (p *Pool[C]) KeepWarm(variant string) {
	p.group.mu.Lock()
	if p.maxVariants > 0 {
		p.requested(p.findOrAdd(variant))
	}
	p.group.unlock(p, whenDue)
}

// Forget keeps no connections warm any more for variants that no client has come for since then, but for the one used last.
// Those that there are become surplus: it is for the worker, which is not signalled, and looks for surplus after it.
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

// findOrAdd returns the variant of that name, and makes it if need be.
func (p *Pool[C]) findOrAdd(name string) *variant[C] {
	v := p.find(name)
	if v == nil {
		v = &variant[C]{name: name}
		p.variants = append(p.variants, v)
	}
	return v
}

// forgetUnused forgets a variant of which nothing is left.
func (p *Pool[C]) forgetUnused(v *variant[C]) {
	if v.slots == 0 && !v.keptWarm && v != &p.base {
		p.variants = slices.DeleteFunc(p.variants, func(other *variant[C]) bool { return other == v })
	}
}

// requested notes that a client came for the variant. When more are kept warm than may be, the one that was used longest ago is
// not any more.
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

// limitKeptWarm sees that no more variants are kept warm than may be; that one, unless it is nil, is one of them.
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

// countKeptWarm returns how many variants are countKeptWarm warm.
func (p *Pool[C]) countKeptWarm() (n int) {
	for _, v := range p.variants {
		if v.keptWarm {
			n++
		}
	}
	return n
}

// lastRequested returns the variant that was used last of those kept warm, or the one without a name.
func (p *Pool[C]) lastRequested() *variant[C] {
	last := &p.base
	for _, v := range p.variants {
		if v.keptWarm && (!last.keptWarm || v.requestedAt > last.requestedAt) {
			last = v
		}
	}
	return last
}

// warmOf returns how many connections of a variant are kept ready: all variants that are kept have an equal part of the warm
// ones, and where there are too few for one each, those used last have them.
func (p *Pool[C]) warmOf(v *variant[C]) int {
	if p.hasNoVariants() {
		return p.warm
	}
	if !v.keptWarm {
		return 0
	}
	before, later := 0, 0 // how many stand before it; how many were used later
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
	case before < p.warm%n: // not by use: what is over would go from one to another with each lease
		return p.warm/n + 1
	}
	return p.warm / n
}

// surplusOf returns how many idle connections of a variant there are beyond the warm ones; negative when some lack. Those that
// are to be replaced do not count.
func (p *Pool[C]) surplusOf(v *variant[C]) int { return v.coming + v.idle - v.outdated - p.warmOf(v) }

// variantToPredial returns the variant of which the next warm connection is to be dialed: the one used last of those that lack some.
func (p *Pool[C]) variantToPredial() (lacking *variant[C]) {
	if !p.predial {
		return nil
	}
	for _, v := range p.variants {
		if (lacking == nil || v.requestedAt > lacking.requestedAt) && p.surplusOf(v) < 0 {
			lacking = v
		}
	}
	return lacking
}

// compareWarm tells whether warm connections of any variant lack, and whether there are more idle ones of any than are kept warm.
func (p *Pool[C]) compareWarm() (lacks, abounds bool) {
	if p.hasNoVariants() {
		n := p.base.coming + p.base.idle - p.base.outdated
		return n < p.warm && p.predial, n > p.warm
	}
	for _, v := range p.variants {
		surplus := p.surplusOf(v)
		lacks = lacks || surplus < 0 && p.predial
		abounds = abounds || surplus > 0 && v.idle > v.outdated
	}
	return lacks, abounds
}

// oldest returns the idle slot that was used longest ago, of a variant for which f is true if it is given; nil for none.
func (p *Pool[C]) oldest(f func(*variant[C]) bool) (oldest *Slot[C]) {
	for _, v := range p.variants {
		if s := v.oldest; s != nil && (oldest == nil || s.idleOrder < oldest.idleOrder) && (f == nil || f(v)) {
			oldest = s
		}
	}
	return oldest
}
