package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Balance is how a backend is chosen among those that are enabled, well and have an idle connection.
type Balance uint8

// The ways to choose a backend.
const (
	// LeastLoaded takes the one that will have the smallest share of its cap in use, in relation to its weight; ties are
	// random. The new session counts, so that of empty backends the larger or heavier one comes first.
	// Sessions are long, so what counts is what is in use now, not what was handed out before.
	LeastLoaded Balance = iota
	// RoundRobin takes one after the other, each as often as its weight says.
	RoundRobin
	// RandomTwo takes the less loaded of two at random, which are drawn as often as their weights say.
	RandomTwo
	// Hash takes the same one for the same key as long as it can, and moves few keys when backends come and go: the highest
	// of the hashes of the key with each backend, weighted (rendezvous hashing).
	Hash
)

var balanceNames = []string{"least-loaded", "round-robin", "random-two", "hash"}

// String returns the name as it is used in configuration.
func (b Balance) String() string { return balanceNames[b] }

// BalanceNames returns the names of the ways to choose a backend, the default first.
func BalanceNames() []string { return slices.Clone(balanceNames) }

// ParseBalance returns the way of that name.
func ParseBalance(name string) (Balance, error) {
	return parse[Balance]("balance", name, balanceNames)
}

// parse returns the value of that name.
func parse[T ~uint8](what, name string, names []string) (T, error) {
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %q: use one of %s", what, name, strings.Join(names, ", "))
	}
	return T(i), nil
}

// HashKey returns the hash of a text for [Waiter.Key]. It is the same in every process (FNV-1a with a finalizer).
func HashKey(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads the bits of a number over all of it (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// choose returns the pool to lease from, or nil when none has an idle connection of that variant for a new session. It is called with the
// mutex held, and allocates nothing.
func (g *Group[C]) choose(variant string, key uint64) *Pool[C] {
	if len(g.pools) == 1 {
		if p := g.pools[0]; p.ready(variant) {
			return p
		}
		return nil
	}
	switch g.balance {
	case RoundRobin:
		return g.nextInTurn(variant)
	case RandomTwo:
		first := g.draw(variant, nil)
		second := g.draw(variant, first)
		if second != nil && second.load(second.using()) < first.load(first.using()) {
			return second
		}
		return first
	case Hash:
		return g.highest(variant, func(p *Pool[C]) float64 {
			// A hash between 0 and 1; -weight/log(it) is highest as often as the weight says.
			unit := (float64(mix(key^p.seed)>>11) + 0.5) / (1 << 53)
			return -p.currentWeight() / math.Log(unit)
		})
	}
	return g.highest(variant, func(p *Pool[C]) float64 { return -p.load(p.using() + 1) })
}

// ready reports whether a connection of that variant can be leased at once.
func (p *Pool[C]) ready(variant string) bool {
	if variant == "" { // without a call, as nearly always
		return p.base.newest != nil && p.leasable()
	}
	return p.readyOf(p.find(variant))
}

func (p *Pool[C]) readyOf(v *variant[C]) bool { return v != nil && v.newest != nil && p.leasable() }

// currentWeight returns the fraction of the weight that counts at present.
func (p *Pool[C]) currentWeight() float64 { return p.weight * p.ramp }

// highest returns the ready pool with the highest score; ties are random.
func (g *Group[C]) highest(variant string, score func(*Pool[C]) float64) *Pool[C] {
	var best *Pool[C]
	most, ties := 0.0, 0
	for _, p := range g.pools {
		if !p.ready(variant) {
			continue
		}
		switch s := score(p); {
		case best == nil || s > most:
			best, most, ties = p, s, 1
		case s == most:
			if ties++; rand.IntN(ties) == 0 {
				best = p
			}
		}
	}
	return best
}

// nextInTurn returns the ready pool whose turn it is. Each earns its weight in credit; the one with most credit is taken and pays what all
// have earned, so that the turns of a heavy one are spread over those of the others.
func (g *Group[C]) nextInTurn(variant string) *Pool[C] {
	total := 0.0
	for _, p := range g.pools {
		if p.ready(variant) {
			p.credit += p.currentWeight()
			total += p.currentWeight()
		}
	}
	best := g.highest(variant, func(p *Pool[C]) float64 { return p.credit })
	if best != nil {
		best.credit -= total
	}
	return best
}

// draw returns a ready pool at random but not the one named, each as often as its weight says; nil when there is none.
func (g *Group[C]) draw(variant string, but *Pool[C]) *Pool[C] {
	var drawn *Pool[C]
	total := 0.0
	for _, p := range g.pools {
		if p == but || !p.ready(variant) {
			continue
		}
		total += p.currentWeight()
		if rand.Float64()*total < p.currentWeight() {
			drawn = p
		}
	}
	return drawn
}
