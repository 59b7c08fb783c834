package services

import (
	"cmp"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Ledger is what the ledger has, as far as the services want to know it.
type Ledger struct {
	Self     fleet.ID // this proxy
	Accounts []fleet.Account
	Members  []fleet.Member
	// Trouble says why no place can be granted at present; empty if places can be.
	Trouble string
}

// SetLedger says what the ledger has. The services tell the fleet's use of servers by it, and choose the servers at which clients wait. They
// keep the value, which must not be changed. Nil is for a proxy that shares nothing.
func (s *Services) SetLedger(l *Ledger) {
	accounts, names := make(map[string]*fleet.Account), make(map[fleet.ID]string)
	if l != nil {
		for i := range l.Accounts {
			accounts[l.Accounts[i].Server] = &l.Accounts[i]
		}
		for i := range l.Members {
			names[l.Members[i].ID] = l.Members[i].Name
		}
	}
	s.mu.Lock()
	defer s.unlock()
	s.ledger, s.accounts, s.proxyNames = l, accounts, names
}

// The functions below are called with Services.mu held.

// othersClaim returns what the other proxies claim of a server together: the sum of what they need, of their clients that wait, and the
// longest wait in whole seconds.
func (s *Services) othersClaim(server string) (sum fleet.Claim) {
	account := s.accounts[server]
	if account == nil {
		return sum
	}
	for i := range account.Grants {
		g := &account.Grants[i]
		if g.Proxy == s.ledger.Self {
			continue
		}
		sum.Needs += g.Claim.Needs
		sum.Waiting += g.Claim.Waiting
		if g.Claim.Waiting > 0 {
			sum.Waited = max(sum.Waited, g.Claim.Waited)
		}
	}
	return sum
}

// placesOf returns how a server's places are shared; nil if they are not. usage is this proxy's.
func (s *Services) placesOf(m *member, book *pool.Stats, usage *fleet.Usage) *api.Places {
	if !book.Shared {
		return nil
	}
	p := &api.Places{Grant: book.Grant, Granted: book.Grant, Cap: m.limit(), Needs: usage.Needs, Others: []api.PlaceHolder{}}
	account := s.accounts[m.server]
	if account == nil {
		return p
	}
	if limit := account.Cap(); limit > 0 {
		p.Cap = min(p.Cap, limit)
	}
	for i := range account.Grants {
		g := &account.Grants[i]
		if g.Proxy == s.ledger.Self { // what it gives back is its own in the ledger until its connections are closed
			p.Granted += max(0, g.Places-book.Grant)
			continue
		}
		p.Granted += g.Places
		p.Needs += g.Claim.Needs
		if g.Places > 0 {
			p.Others = append(p.Others, api.PlaceHolder{ID: string(g.Proxy), Name: cmp.Or(s.proxyNames[g.Proxy], string(g.Proxy)), Places: g.Places, Needs: g.Claim.Needs})
		}
	}
	slices.SortFunc(p.Others, func(a, b api.PlaceHolder) int {
		return cmp.Or(cmp.Compare(b.Places, a.Places), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return p
}
