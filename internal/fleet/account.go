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

// short reports whether a proxy lacks places that it needs, or wants so much that they are worth moving. Those that have not been seen
// for some time do not count. What others have told of their needs may be old, so only they know whether they have places to spare.
func (a *Account) short(unseen map[ID]bool) bool {
	return slices.ContainsFunc(a.Grants, func(g Grant) bool {
		return !unseen[g.Proxy] && g.accepts(max(g.worthMoving(), g.Claim.Floor)) > g.Places
	})
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
