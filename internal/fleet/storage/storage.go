// Package storage finds what an exchange changes in a ledger, so that a store writes only that. It is what stores share: no I/O.
package storage

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// NewLedger returns an empty ledger.
func NewLedger() *fleet.Ledger {
	return &fleet.Ledger{Members: make(map[fleet.ID]*fleet.Member), Accounts: make(map[string]*fleet.Account)}
}

// NewEpoch returns an epoch that has never been.
func NewEpoch() fleet.Epoch { return fleet.Epoch(strings.ToLower(rand.Text()[:16])) }

// Clone returns a copy of a ledger that shares nothing with it.
func Clone(l *fleet.Ledger) *fleet.Ledger {
	c := *l
	c.Past = slices.Clone(l.Past)
	c.Departed = slices.Clone(l.Departed)
	c.Members = make(map[fleet.ID]*fleet.Member, len(l.Members))
	for id, m := range l.Members {
		copied := *m
		c.Members[id] = &copied
	}
	c.Accounts = make(map[string]*fleet.Account, len(l.Accounts))
	for server, a := range l.Accounts {
		copied := *a
		copied.Grants = slices.Clone(a.Grants)
		c.Accounts[server] = &copied
	}
	return &c
}

// Changes are what differs between a ledger before and after a call.
type Changes struct {
	Before, After *fleet.Ledger
	// Ledger: identity, epochs, who has departed, whether it is settled, or the version.
	Ledger bool
	// Members are those that are new or differ in more than Seen, Beats, Sequence and Sessions. Removed are gone.
	Members, Removed []fleet.ID
	// Accounts are the servers whose accounts are new or differ. Gone have none any more.
	Accounts, Gone []string
}

// Exchange carries out a report on a copy of the ledger, and returns the answer, the copy and what differs. at is the store's time.
func Exchange(l *fleet.Ledger, r *fleet.Report, identity string, fresh fleet.Epoch, at time.Time) (*fleet.Answer, *fleet.Ledger, *Changes) {
	after := Clone(l)
	answer := after.Exchange(r, identity, fresh)
	if m := after.Members[r.ID]; m != nil && !answer.Stale {
		m.Seen = at
	}
	for i := range answer.Members {
		if answer.Members[i].ID == r.ID {
			answer.Members[i].Seen = at
		}
	}
	return answer, after, compare(l, after)
}

// Forget removes a member on a copy of the ledger. It returns false if there is none.
func Forget(l *fleet.Ledger, id fleet.ID, identity string, fresh fleet.Epoch) (*fleet.Ledger, *Changes, bool) {
	after := Clone(l)
	if !after.Forget(id, identity, fresh) {
		return nil, nil, false
	}
	return after, compare(l, after), true
}

func compare(before, after *fleet.Ledger) *Changes {
	c := &Changes{Before: before, After: after}
	c.Ledger = before.Identity != after.Identity || before.Epoch != after.Epoch || before.Settled != after.Settled ||
		before.Version != after.Version || !slices.Equal(before.Past, after.Past) || !slices.Equal(before.Departed, after.Departed)
	for id, m := range after.Members {
		if b := before.Members[id]; b == nil || Lasting(b) != Lasting(m) {
			c.Members = append(c.Members, id)
		}
	}
	for id := range before.Members {
		if after.Members[id] == nil {
			c.Removed = append(c.Removed, id)
		}
	}
	for server, a := range after.Accounts {
		b := before.Accounts[server]
		if b == nil || b.Version != a.Version || !slices.Equal(b.Grants, a.Grants) {
			c.Accounts = append(c.Accounts, server)
		}
	}
	for server := range before.Accounts {
		if after.Accounts[server] == nil {
			c.Gone = append(c.Gone, server)
		}
	}
	slices.Sort(c.Members)
	slices.Sort(c.Removed)
	slices.Sort(c.Accounts)
	slices.Sort(c.Gone)
	return c
}

// Lasting returns a member without what each exchange may change.
func Lasting(m *fleet.Member) fleet.Member {
	c := *m
	c.Seen, c.Beats, c.Sequence, c.Sessions = time.Time{}, 0, 0, 0
	c.Started = c.Started.UTC().Round(0) // without a monotonic clock's reading
	return c
}

// Anything reports whether there is more to write than a beat.
func (c *Changes) Anything() bool {
	return c.Ledger || len(c.Members) > 0 || len(c.Removed) > 0 || len(c.Accounts) > 0 || len(c.Gone) > 0
}

// Concerned returns the proxies that should make an exchange before their next beat, except the one that made the changes: those that can
// get places that they need, or else those that have enough idle places for somebody else's needs; by ID.
func (c *Changes) Concerned(by fleet.ID) []fleet.ID {
	concerned := make(map[fleet.ID]bool)
	for _, server := range c.Accounts {
		a := c.After.Accounts[server]
		if before := c.Before.Accounts[server]; before == nil || before.Version != a.Version { // others must know
			wake(a, by, concerned)
		}
	}
	return slices.Sorted(maps.Keys(concerned))
}

// idle are places that a proxy has, and that are fair for others.
type idle struct {
	proxy  fleet.ID
	places int
}

// wake adds the proxies that a changed account concerns.
func wake(a *fleet.Account, by fleet.ID, concerned map[fleet.ID]bool) {
	lacks := 0
	for i := range a.Grants {
		lacks += max(0, a.Grants[i].Claim.Needs-a.Grants[i].Places)
	}
	if lacks == 0 {
		return
	}
	isFree := a.Granted() < a.Cap()
	var givers []idle
	for i, fair := range fleet.Fair(a) {
		g := &a.Grants[i]
		used := g.Claim.Needs - g.Claim.Waiting
		switch surplus := g.Places - max(fair, used); {
		case g.Proxy == by:
		case isFree && g.Claim.Needs > g.Places && fair > g.Places:
			concerned[g.Proxy] = true
		case !isFree && surplus > 0:
			givers = append(givers, idle{g.Proxy, surplus})
		}
	}
	// What they have told may be old, so more are woken than are needed. The others hear of it at their next beat.
	slices.SortFunc(givers, func(a, b idle) int {
		return cmp.Or(cmp.Compare(b.places, a.places), cmp.Compare(a.proxy, b.proxy))
	})
	for left := 4 * lacks; len(givers) > 0 && left > 0; givers = givers[1:] {
		left -= givers[0].places
		concerned[givers[0].proxy] = true
	}
}

// Members returns a ledger's members by name.
func Members(l *fleet.Ledger) []fleet.Member {
	members := make([]fleet.Member, 0, len(l.Members))
	for _, m := range l.Members {
		members = append(members, *m)
	}
	slices.SortFunc(members, func(a, b fleet.Member) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return members
}

// Accounts returns a ledger's accounts by server.
func Accounts(l *fleet.Ledger) []fleet.Account {
	accounts := make([]fleet.Account, 0, len(l.Accounts))
	for _, server := range slices.Sorted(maps.Keys(l.Accounts)) {
		a := *l.Accounts[server]
		a.Grants = slices.Clone(a.Grants)
		accounts = append(accounts, a)
	}
	return accounts
}
