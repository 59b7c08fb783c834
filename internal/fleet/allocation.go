package fleet

import (
	"cmp"
	"math"
	"slices"
)

// This file decides who gives places, who takes them, who lends and borrows them, and who is told or woken. All of it follows from one server's
// [Account] and what a proxy knows of itself; ledger, holder and stores only carry it out.
//
//   - Fair shares: [Fair], after the reserve.
//   - Who takes: [Account.takes], when the ledger carries out a report.
//   - Who gives back: [outlook.keeps], before a holder reports.
//   - Who lends and borrows while the ledger grants nothing: [Holder.Spare], [Holder.Lacks].
//   - Who hears of a change: [mustTell] and [worthTelling]; who is woken by it: [Account.Wakes].

// reserved is the fraction of a server's places that is granted only to proxies that need them: an eighth.
const reserved = 8

// smallFleet is the largest number of proxies that divide all places of a server, and tell each other immediately what they want.
const smallFleet = 10

// Reserve returns how many places are granted only to proxies whose clients need them, never for connections to keep warm: an eighth, as
// long as more than one proxy uses the server. So a proxy whose sessions become more takes one exchange, and no other has to give back.
func (a *Account) Reserve() int {
	if a.isExclusive() {
		return 0
	}
	return a.Cap() / reserved
}

// isExclusive reports whether at most one proxy takes places. Others may have some that they only give up.
func (a *Account) isExclusive() bool {
	n := 0
	for i := range a.Grants {
		if a.Grants[i].Claim.Cap > 0 {
			n++
		}
	}
	return n <= 1
}

// isLarge reports whether many proxies use the server.
func (a *Account) isLarge() bool { return len(a.Grants) > smallFleet }

// isLow reports whether less than half of the reserve is free, so that proxies that have more than is fair should give it back.
func (a *Account) isLow() bool { return 2*(a.Cap()-a.Granted()) < a.Reserve() }

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
	if total == 0 { // no proxy has the server in its configuration
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
	left   int   // places that are not given to a proxy yet
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

// takes returns how many more places the proxy whose grant has the index i gets of those that are free. named: its report is about the account,
// which is written anyway; otherwise few places are not worth a write.
func (a *Account) takes(i int, named bool, free int, unseen map[ID]bool) int {
	if free <= 0 {
		return 0
	}
	g, fair := &a.Grants[i], fair(a, unseen)[i]
	if !named && !a.isWorthTaking(i, fair) {
		return 0
	}
	more := fair - g.Places
	if lacks := g.accepts(g.Claim.Needs) - g.Places; lacks > 0 && a.Reserve() > 0 && more >= lacks {
		// Half of what is free is left for others that come to need it.
		more = max(more, lacks+min(g.advance(), (free-lacks)/2))
	}
	return max(0, min(more, free))
}

// isWorthTaking reports whether a proxy that has nothing else to say takes what is free of its fair places: if it needs it, if it is more than an
// eighth, or if no other could use it. i is the index of its grant.
func (a *Account) isWorthTaking(i, fair int) bool {
	g := &a.Grants[i]
	if a.isLarge() {
		fair = min(fair, g.accepts(g.worthMoving()))
	}
	lacks := fair - g.Places
	return lacks > 0 && (a.isExclusive() || g.Claim.Needs > g.Places || 8*lacks > fair)
}

// needy reports whether a proxy lacks places that its clients need, or that are its floor. Those that have not been seen for some time do
// not count. What others have reported of their needs may be old, so only they know whether they have places to spare.
func (a *Account) needy(unseen map[ID]bool) bool {
	return slices.ContainsFunc(a.Grants, func(g Grant) bool {
		return !unseen[g.Proxy] && g.accepts(max(g.Claim.Needs, g.Claim.Floor)) > g.Places
	})
}

// wanting reports whether a proxy lacks enough of what it wants, and is fair for it, that places are worth moving. fair is what is fair for
// each.
func (a *Account) wanting(fair []int, unseen map[ID]bool) bool {
	for i := range a.Grants {
		g := &a.Grants[i]
		if !unseen[g.Proxy] && 4*(min(fair[i], g.accepts(g.worthMoving()))-g.Places) > fair[i] {
			return true
		}
	}
	return false
}

// othersHaveEnough reports whether proxies that have more to give than the one with index i have enough for all that is needed: four times as much,
// since what they have reported may be old. fair is what is fair for each.
func (a *Account) othersHaveEnough(fair []int, i int) bool {
	left := 0
	for j := range a.Grants {
		g := &a.Grants[j]
		left += 4 * max(0, g.accepts(g.Claim.Needs)-g.Places)
	}
	own := a.Grants[i].Places - fair[i]
	for j := range a.Grants {
		if surplus := a.Grants[j].Places - fair[j]; surplus > own || surplus == own && j < i {
			left -= surplus
		}
	}
	return left <= 0
}

// outlook is what follows from an account and from what one proxy there needs itself. It is worked out anew when one of them has changed.
type outlook struct {
	account  *Account
	granted  int
	claim    Claim
	suspects uint64 // of [Holder.suspected]

	needy, isOver, isLow bool
	own                  int   // the index of the proxy's grant; -1 if it has none
	keep                 int   // what the proxy keeps when none is in need; all that is granted, until it was its turn to give back
	fair                 []int // nil until [outlook.divide]
	wanting              bool
	others               bool // where many use the server, others have enough to give
}

// keeps returns up to how many places the proxy keeps for itself; it gives back the others. defers: only what others need to know immediately may
// be given back. view is the account with the proxy's latest needs.
func (l *outlook) keeps(defers bool, view func() *Account, suspects map[ID]bool) (keep int, minor bool) {
	if defers && !l.needy && !l.isOver {
		return l.keep, false
	}
	if l.fair == nil { // it costs more than the rest
		a := view()
		l.fair = fair(a, suspects)
		l.wanting = a.wanting(l.fair, suspects)
		l.others = a.isLarge() && a.othersHaveEnough(l.fair, l.own)
	}
	fair := l.fair[l.own]
	switch {
	case l.isOver, l.needy && !(l.others && defers):
		return fair, false
	case defers || !l.wanting && !l.isLow:
		return l.keep, false
	}
	l.keep = fair
	return fair, true
}

// Spare returns how many of a server's places the proxy can lend: those that its own clients do not need.
func (h *Holder) Spare(server string) int {
	s := h.servers[server]
	if s == nil || h.epoch == "" || h.needsFull || h.leaves || h.o.Timeout > 0 {
		return 0
	}
	return max(0, s.limit-max(s.usage.Needs, h.o.Floor))
}

// Lacks returns by server how many places the proxy's clients need and would have to borrow. [Holder.Use] must have been called since the last report.
func (h *Holder) Lacks() map[string]int {
	all := make(map[string]int)
	for server, s := range h.servers {
		if lacks := min(s.usage.Needs, s.usage.Cap) - s.limit - s.borrowed; lacks > 0 && s.current {
			all[server] = lacks
		}
	}
	return all
}

// mustTell reports whether others must hear of a change of an account immediately: a proxy is or was short of places that it needs, more are or
// were granted than there are, or the cap is another.
func mustTell(before, after *Account) bool {
	return after.Granted() > after.Cap() || before.Granted() > before.Cap() || before.Cap() != after.Cap() || before.needy(nil) || after.needy(nil)
}

// worthTelling reports whether others should hear of it: a proxy lacks or lacked what it wants, the reserve runs low, or places became free that
// are worth taking. Where many use a server, that would be told to all many times a second, so there it waits ([exchange.finish]).
func worthTelling(before, after *Account) bool {
	return after.isLow() && !before.isLow() || after.Granted() < before.Granted() && after.offers() || after.isWanting() || before.isWanting()
}

// isWanting is wanting for an account of which it is not known what is fair.
func (a *Account) isWanting() bool {
	for i := range a.Grants {
		if g := &a.Grants[i]; g.accepts(g.worthMoving()) > g.Places {
			return a.wanting(Fair(a), nil)
		}
	}
	return false
}

// offers reports whether there are free places that are worth an exchange to a proxy that does not need them.
func (a *Account) offers() bool {
	if a.Granted() >= a.Cap() {
		return false
	}
	fair := Fair(a)
	for i := range a.Grants {
		if a.isWorthTaking(i, fair[i]) {
			return true
		}
	}
	return false
}

// Wakes returns the proxies that should make an exchange before their next heartbeat, since the account has changed, except the one that changed
// it: those that can get places that they need, or else those that have enough idle places for others' needs.
func (a *Account) Wakes(by ID) (woken []ID) {
	lacks := 0
	for i := range a.Grants {
		lacks += max(0, a.Grants[i].Claim.Needs-a.Grants[i].Places)
	}
	if lacks == 0 {
		return nil
	}
	type giver struct {
		proxy   ID
		surplus int // idle places that are fair for others
	}
	isFree := a.Granted() < a.Cap()
	var givers []giver
	for i, fair := range Fair(a) {
		g := &a.Grants[i]
		used := g.Claim.Needs - g.Claim.Waiting
		switch surplus := g.Places - max(fair, used); {
		case g.Proxy == by:
		case isFree && g.Claim.Needs > g.Places && fair > g.Places:
			woken = append(woken, g.Proxy)
		case !isFree && surplus > 0:
			givers = append(givers, giver{g.Proxy, surplus})
		}
	}
	// What they have reported may be old, so more are woken than are needed. The others hear of it with their next heartbeat.
	slices.SortFunc(givers, func(a, b giver) int {
		return cmp.Or(cmp.Compare(b.surplus, a.surplus), cmp.Compare(a.proxy, b.proxy))
	})
	for left := 4 * lacks; len(givers) > 0 && left > 0; givers = givers[1:] {
		left -= givers[0].surplus
		woken = append(woken, givers[0].proxy)
	}
	return woken
}
