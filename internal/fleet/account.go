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

// short reports whether a proxy lacks places that others have or nobody has, and that it needs, or wants so much that they are worth
// moving. Those that have not been seen for some time do not count.
func (a *Account) short(unseen map[ID]bool) bool {
	var places []int
	for i := range a.Grants {
		g := &a.Grants[i]
		if unseen[g.Proxy] || g.accepts(max(g.worthMoving(), g.Claim.Floor)) <= g.Places {
			continue
		}
		if places == nil {
			places = fair(a, unseen)
		}
		if places[i] > g.Places {
			return true
		}
	}
	return false
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
