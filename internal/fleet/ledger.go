package fleet

// Ledger is what a store keeps, or the part of it that one exchange needs: all members, and the accounts that the report names or that
// have changed since its version. A store loads it under a lock, calls [Ledger.Exchange] or [Ledger.Forget], and writes what has changed
// in the same transaction.
type Ledger struct {
	Identity string  // of the database process that last kept it; empty before the first exchange
	Epoch    Epoch   // empty before the first exchange
	Past     []Epoch // the latest ones before it
	// Settled: a lease time has passed in this epoch. The first epoch of a ledger is settled from the beginning.
	Settled  bool
	Version  int64 // goes up with each change
	Members  map[ID]*Member
	Accounts map[string]*Account // by server
}

// Exchange carries out a report. identity is that of the database process that keeps the ledger now, and fresh is an epoch that
// has never been, for the case that one begins.
func (l *Ledger) Exchange(r *Report, identity string, fresh Epoch) *Answer { panic("not written yet") }

// Forget removes a member and its grants, and reports whether there was one.
func (l *Ledger) Forget(id ID) bool { panic("not written yet") }

// Cap returns how many places the server has: the least that any proxy with a grant or claim there knows.
func (a *Account) Cap() int { panic("not written yet") }

// Granted returns how many places all proxies have together.
func (a *Account) Granted() int { panic("not written yet") }
