package fleet

import (
	"cmp"
	"math"
	"slices"
)

// Fair returns how many places each of the grants would have if all could move at once, in the order of the grants. Floors come first,
// then what is needed, then what is wanted, each step max-min fair by share; then those that have least get what is left. The sum is at
// most the cap. If several proxies use the server, what is not needed is divided but for the [Account.Reserve]. If many do, each gets only a few
// places more than it needs or wants, and the others stay free: otherwise each proxy that joins would take places from all others.
//
// A proxy that lacks little of what it would like to keep warm is taken to have enough, so that places do not wander for it.
func Fair(a *Account) []int { return fair(a, nil) }

// fair is Fair for the case that some proxies have not been seen for some time: they keep what they have, and get nothing.
func fair(a *Account, unseen map[ID]bool) []int {
	total := a.Cap()
	if total == 0 { // nobody has the server any more
		total = a.Granted()
	}
	f := division{places: make([]int, len(a.Grants)), a: a}
	for i := range a.Grants {
		g := &a.Grants[i]
		if unseen[g.Proxy] {
			f.places[i] = g.Places
			total -= g.Places
			continue
		}
		f.open = append(f.open, i)
	}
	f.left = max(total, 0)
	f.raise(false, func(g *Grant) int { return g.accepts(g.Claim.Floor) })
	f.raise(true, func(g *Grant) int { return g.accepts(g.Claim.Needs) })
	f.left = max(f.left-a.Reserve(), 0)
	f.raise(true, func(g *Grant) int { return g.accepts(g.worthMoving()) })
	if a.isLarge() {
		f.raise(false, func(g *Grant) int { return g.accepts(g.Claim.Needs + g.advance()) })
	} else {
		f.raise(false, func(g *Grant) int { return g.accepts(math.MaxInt) })
	}
	return f.places
}

// advance is how many places more than it needs a proxy gets that needs more than it has, if they are free: so that not each of its next
// sessions takes an exchange.
func (g *Grant) advance() int { return 2 + g.Claim.Needs/8 }

// accepts returns how many of n places the proxy takes: one that gives the server up takes no more than it has, or than its sessions and
// the clients need that it accepted before it began to drain.
func (g *Grant) accepts(n int) int {
	if g.Claim.Cap <= 0 {
		return min(n, max(g.Places, g.Claim.Needs))
	}
	return n
}

// worthMoving returns what a proxy wants, as far as it is worth moving places from others: if it lacks less than a quarter, it is what
// it has.
func (g *Grant) worthMoving() int {
	wants := max(g.Claim.Wants, g.Claim.Needs)
	if lacks := wants - g.Places; lacks > 0 && 4*lacks < wants {
		return max(g.Places, g.Claim.Needs)
	}
	return wants
}

func (g *Grant) share() float64 {
	if g.Claim.Share > 0 {
		return g.Claim.Share
	}
	return 1
}

// division is the work of one call of fair.
type division struct {
	a      *Account
	open   []int // indexes of the grants that take part
	places []int // by index of a grant
	left   int   // places that nobody has been given yet
	high   []int // by index of a grant: up to how many places a step gives
	short  []int // indexes of the grants that a step gives places
}

// raise gives each grant as many places as upTo says, if there are enough, and otherwise divides what is left so that the least of
// places by share is as large as possible. waited: among equals, those whose clients have waited longest come first.
func (f *division) raise(waited bool, upTo func(*Grant) int) {
	if f.left == 0 {
		return
	}
	if f.high == nil {
		f.high = make([]int, len(f.places))
	}
	high := f.high
	lacks := 0 // of all, as far as that is more than what is left
	short := f.short[:0]
	for _, i := range f.open {
		high[i] = upTo(&f.a.Grants[i])
		if gap := high[i] - f.places[i]; gap > 0 {
			short = append(short, i)
			lacks = min(lacks+min(gap, f.left+1), math.MaxInt/2)
		}
	}
	f.short = short
	if lacks <= f.left {
		for _, i := range short {
			f.left -= high[i] - f.places[i]
			f.places[i] = high[i]
		}
		return
	}

	// The level is the number of places by share that all get who do not have it already. It is searched for, and then what rounding has
	// left is given away one by one.
	at := func(i int, level float64) int {
		return max(f.places[i], int(math.Floor(min(level*f.a.Grants[i].share(), float64(high[i])))))
	}
	needed := func(level float64) int {
		n := 0
		for _, i := range short {
			n += at(i, level) - f.places[i]
			if n > f.left {
				break
			}
		}
		return n
	}
	low, top := 0.0, 1.0
	for needed(top) <= f.left {
		low, top = top, 2*top
	}
	for range 30 { // one place of a billion
		if middle := (low + top) / 2; needed(middle) <= f.left {
			low = middle
		} else {
			top = middle
		}
	}
	for _, i := range short {
		n := at(i, low)
		f.left -= n - f.places[i]
		f.places[i] = n
	}
	short = slices.DeleteFunc(short, func(i int) bool { return f.places[i] >= high[i] })
	slices.SortFunc(short, func(i, j int) int { return f.before(i, j, waited) })
	for f.left > 0 {
		// Rounding leaves each of them less than one place, so the first comes again only if its share is larger than others'.
		i := short[0]
		f.places[i]++
		f.left--
		rest := short[1:]
		if f.places[i] >= high[i] {
			short = rest
			continue
		}
		n, _ := slices.BinarySearchFunc(rest, i, func(j, i int) int { return f.before(j, i, waited) })
		copy(short, rest[:n])
		short[n] = i
	}
}

// before compares two grants by who gets the next place.
func (f *division) before(i, j int, waited bool) int {
	g, h := &f.a.Grants[i], &f.a.Grants[j]
	if c := cmp.Compare(float64(f.places[i]+1)/g.share(), float64(f.places[j]+1)/h.share()); c != 0 {
		return c
	}
	if waited {
		if c := cmp.Compare(h.Claim.Waited, g.Claim.Waited); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(h.Places, g.Places); c != 0 {
		return c // so that places do not move between equals
	}
	return cmp.Compare(g.Proxy, h.Proxy)
}
