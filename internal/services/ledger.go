package services

import "github.com/wsbouncer/wsbouncer/internal/fleet"

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
	accounts := make(map[string]*fleet.Account)
	if l != nil {
		for i := range l.Accounts {
			accounts[l.Accounts[i].Server] = &l.Accounts[i]
		}
	}
	s.mu.Lock()
	defer s.unlock()
	s.ledger, s.accounts = l, accounts
}

// othersNeed returns how many places of a server the other proxies need. It is called with Services.mu held.
func (s *Services) othersNeed(server string) (n int) {
	account := s.accounts[server]
	if account == nil {
		return 0
	}
	for i := range account.Grants {
		if g := &account.Grants[i]; g.Proxy != s.ledger.Self {
			n += g.Claim.Needs
		}
	}
	return n
}
