package fleet

import "slices"

// Cap returns how many places the server has: the least that any proxy with a grant or claim there knows; 0 if none of them knows.
func (a *Account) Cap() int {
	least := 0
	for i := range a.Grants {
		if c := a.Grants[i].Claim.Cap; c > 0 && (least == 0 || c < least) {
			least = c
		}
	}
	return least
}

// Granted returns how many places all proxies have together.
func (a *Account) Granted() int {
	sum := 0
	for i := range a.Grants {
		sum += a.Grants[i].Places
	}
	return sum
}

// IsEmpty reports whether no proxy has a grant or claim there.
func (a *Account) IsEmpty() bool { return len(a.Grants) == 0 }

// index returns the index of a proxy's grant; -1 if it has none.
func (a *Account) index(id ID) int {
	return slices.IndexFunc(a.Grants, func(g Grant) bool { return g.Proxy == id })
}

// set puts a proxy's grant in the place of what it had. Nothing at all removes it. Grants stay in the order of their proxies.
func (a *Account) set(id ID, places int, c Claim) {
	i, found := slices.BinarySearchFunc(a.Grants, id, func(g Grant, id ID) int { return compareText(string(g.Proxy), string(id)) })
	switch {
	case c == (Claim{}) && places == 0:
		if found {
			a.Grants = slices.Delete(a.Grants, i, i+1)
		}
	case found:
		a.Grants[i] = Grant{id, places, c}
	default:
		a.Grants = slices.Insert(a.Grants, i, Grant{id, places, c})
	}
}

// clone returns a copy that shares nothing with the account.
func (a *Account) clone() Account {
	c := *a
	c.Grants = slices.Clone(a.Grants)
	return c
}

// reserved is which part of a server's places is granted only to proxies that need them.
const reserved = 8

// Reserve returns how many places are granted only to proxies whose clients need them, never for connections to keep warm: an eighth, as
// long as more than one proxy uses the server. So a proxy whose sessions become more takes one exchange, and nobody has to give back.
func (a *Account) Reserve() int {
	if a.isLone() {
		return 0
	}
	return a.Cap() / reserved
}

// isLone reports whether at most one proxy takes places. Others may have some that they only give up.
func (a *Account) isLone() bool {
	n := 0
	for i := range a.Grants {
		if a.Grants[i].Claim.Cap > 0 {
			n++
		}
	}
	return n <= 1
}

// few is how many proxies are few: so many divide all places of a server, and tell each other at once what they want.
const few = 10

// isLarge reports whether many proxies use the server.
func (a *Account) isLarge() bool { return len(a.Grants) > few }

// isLow reports whether less than half of the reserve is free, so that proxies that have more than is fair should give it back.
func (a *Account) isLow() bool { return 2*(a.Cap()-a.Granted()) < a.Reserve() }

// needy reports whether a proxy lacks places that its clients need, or that are its floor. Those that have not been seen for some time do
// not count. What others have told of their needs may be old, so only they know whether they have places to spare.
func (a *Account) needy(unseen map[ID]bool) bool {
	return slices.ContainsFunc(a.Grants, func(g Grant) bool {
		return !unseen[g.Proxy] && g.accepts(max(g.Claim.Needs, g.Claim.Floor)) > g.Places
	})
}

// haveEnough reports whether proxies that have more to give than the one with index i have enough for all that is needed: four times as much, since
// what they have told may be old. fair is what is fair for each.
func (a *Account) haveEnough(fair []int, i int) bool {
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

// wanting reports whether a proxy lacks so much of what it wants, and is fair for it, that places are worth moving. fair is what is fair for
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

// isWanting is wanting for an account of which it is not known what is fair.
func (a *Account) isWanting() bool {
	for i := range a.Grants {
		if g := &a.Grants[i]; g.accepts(g.worthMoving()) > g.Places {
			return a.wanting(Fair(a), nil)
		}
	}
	return false
}

// offers reports whether there are free places that are worth an exchange to somebody who does not need them.
func (a *Account) offers() bool {
	if a.Granted() >= a.Cap() {
		return false
	}
	fair := Fair(a)
	for i := range a.Grants {
		if a.takes(i, fair[i]) {
			return true
		}
	}
	return false
}

// takes reports whether a proxy that has nothing else to say takes what is free of its fair places: if it needs it, if it is more than an
// eighth, or if nobody else could use it. i is the index of its grant.
func (a *Account) takes(i, fair int) bool {
	g := &a.Grants[i]
	if a.isLarge() {
		fair = min(fair, g.accepts(g.worthMoving()))
	}
	lacks := fair - g.Places
	return lacks > 0 && (a.isLone() || g.Claim.Needs > g.Places || 8*lacks > fair)
}

// places returns how many places a proxy has. The account may be nil.
func (a *Account) places(id ID) int {
	if a != nil {
		if i := a.index(id); i >= 0 {
			return a.Grants[i].Places
		}
	}
	return 0
}
