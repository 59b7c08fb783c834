package fleet

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// pastEpochs is how many epochs before this one a ledger keeps. A report that names an older one makes a new epoch begin, which costs
	// a lease time and is safe.
	pastEpochs = 32
	// keptDeparted is how many of the last proxies that left or were forgotten a ledger keeps.
	keptDeparted = 128
	// keptEmpty is for how many versions a ledger keeps the account of a server at which no proxy has a grant, so that all proxies hear of it.
	// One that makes no exchange meanwhile continues to show the grants that it knew.
	keptEmpty = 128
)

// PastEpoch is an epoch before the ledger's.
type PastEpoch struct {
	Epoch Epoch
	// Version is the last one of the epoch that the ledger knows of. It is -1 for an epoch that was found in a report alone, or of which the
	// ledger has lost a part.
	Version int64
}

// Departed is a proxy that left, or was forgotten or proven dead.
type Departed struct {
	ID       ID
	Sequence uint64 // of its last report
	Past     bool   // before the ledger's epoch began
}

// Ledger is what a store keeps, or the part of it that one exchange needs: all members, and the accounts that the report names, that
// have changed since its version or that are empty, or all accounts ([Report.All]). A store loads it under a lock, calls [Ledger.Exchange] or
// [Ledger.Forget], and writes what has changed in the same transaction.
type Ledger struct {
	// Identity is that of the database process that last kept the ledger, or that created it. It may be empty before the first exchange;
	// but then a failover that loses everything looks like a ledger that was never used. A store that replaces a ledger that it has lost
	// puts any other text there, so that the first epoch begins frozen.
	Identity string
	Epoch    Epoch       // empty before the first exchange
	Past     []PastEpoch // the latest ones before it, the latest last
	Departed []Departed  // the latest last
	LeftOut  Guards      // for the exploration; a store never sets it
	// Settled: a lease time has passed in this epoch. The first epoch of a ledger is settled from the beginning.
	Settled  bool
	Version  int64 // goes up with each change that others must know of
	Members  map[ID]*Member
	Accounts map[string]*Account // by server
}

// Clone returns a copy of a ledger that shares nothing with it.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.Past, c.Departed = slices.Clone(l.Past), slices.Clone(l.Departed)
	c.Members = copies(l.Members)
	c.Accounts = make(map[string]*Account, len(l.Accounts))
	for server, a := range l.Accounts {
		copied := a.Clone()
		c.Accounts[server] = &copied
	}
	return &c
}

// copies returns a map with copies of what another has.
func copies[K comparable, V any](of map[K]*V) map[K]*V {
	all := make(map[K]*V, len(of))
	for key, v := range of {
		all[key] = new(*v)
	}
	return all
}

// exchange is the work of one call of [Ledger.Exchange] or [Ledger.Forget].
type exchange struct {
	*Ledger
	unseen  map[ID]bool
	before  map[string]Account // what accounts were that have been touched
	changed bool               // the version is to go up
}

// Exchange carries out a report. identity is that of the database process that keeps the ledger now, and fresh is an epoch that
// has never been, for the case that one begins.
func (l *Ledger) Exchange(r *Report, identity string, fresh Epoch) *Answer {
	if !l.LeftOut.has(GuardSequence) && r.Sequence <= l.sequence(r.ID) {
		return &Answer{Epoch: l.Epoch, Version: l.Version, Stale: true}
	}
	x := &exchange{Ledger: l, unseen: make(map[ID]bool), before: make(map[string]Account)}
	for _, id := range r.Unseen {
		x.unseen[id] = id != r.ID
	}
	lost := x.enter(r, identity, fresh)

	m, departed := l.Members[r.ID], l.departed(r.ID) >= 0
	joins := m == nil
	if joins {
		// One that was removed and comes back never has as many heartbeats as before, so no proxy that has not heard of it takes it for silent: sequence
		// numbers go up with each exchange.
		m = &Member{ID: r.ID, Heartbeats: r.Sequence - 1}
		l.Members[r.ID] = m
		x.changed = true
	}
	m.Sequence = r.Sequence
	m.Heartbeats++
	x.about(m, r.About)

	for _, d := range r.Dead {
		// A failover may have lost heartbeats, so those of another epoch prove nothing.
		unseen := r.Epoch == l.Epoch && d.Heartbeats == l.heartbeats(d.ID)
		if d.ID != r.ID && l.Members[d.ID] != nil && (d.Proven && x.mayRemove(r, d.ID) || !d.Proven && unseen || l.LeftOut.has(GuardHeartbeats)) {
			x.remove(d.ID)
		}
	}
	a := &Answer{}
	switch {
	case r.Leaves:
		x.remove(r.ID)
	case r.Epoch != "" && r.Epoch != l.Epoch:
		// What it says belongs to another epoch. Whatever the ledger has of it, it may hold something else.
		x.invalidate(m)
		a.Again, a.Lost, a.Forgotten = true, lost, departed
	case !r.Full && m.Epoch != l.Epoch:
		a.Again, a.Forgotten = true, departed || joins
	case joins && r.Epoch != "":
		// It was forgotten, and this report may have been sent before that.
		a.Again, a.Forgotten = true, true
	case r.Epoch == "" && (!l.Settled || !joins && m.Epoch != l.Epoch) && !l.LeftOut.has(GuardJoin):
		// This may be a report from before the epoch that arrives late, and its proxy may hold something by now.
		x.invalidate(m)
		a.Again = true
	default:
		x.recordClaims(m, r)
	}

	a.Missing = l.missing()
	a.Frozen = !l.Settled || len(a.Missing) > 0
	if l.LeftOut.has(GuardFrozen) {
		a.Frozen = false
	}
	if !a.Again && !r.Leaves {
		for server, account := range l.Accounts {
			_, named := r.Claims[server]
			_, touched := x.before[server]
			if !named && !touched && !r.Full && account.Version <= r.Version {
				continue
			}
			if i := account.index(r.ID); i >= 0 && !a.Frozen {
				free := account.Cap() - account.Granted()
				if l.LeftOut.has(GuardFree) {
					free = account.Cap() - account.Grants[i].Places
				}
				if more := account.takes(i, named || touched || r.Full, free, x.unseen); more > 0 {
					x.touch(account).Grants[i].Places += more
				}
			}
			a.Accounts = append(a.Accounts, Account{Server: server})
		}
	}
	x.publish(r.ID)
	x.finish()
	for i := range a.Accounts {
		a.Accounts[i] = l.Accounts[a.Accounts[i].Server].Clone()
	}
	slices.SortFunc(a.Accounts, func(a, b Account) int { return cmp.Compare(a.Server, b.Server) })
	a.Epoch, a.Version, a.Settled = l.Epoch, l.Version, l.Settled
	a.Members = l.members()
	return a
}

// Forget removes a member and its grants, and reports whether there was one. identity and fresh are as for [Ledger.Exchange]: if the database is
// another, the new epoch begins here, with the version from before the forgetting. Otherwise the version that the forgetting adds could hide from
// those who have seen more of the ledger that commits were lost.
func (l *Ledger) Forget(id ID, identity string, fresh Epoch) bool {
	if l.Members[id] == nil {
		return false
	}
	x := &exchange{Ledger: l, before: make(map[string]Account)}
	if l.Epoch != "" && l.moved(identity) && !l.LeftOut.has(GuardForget) {
		x.begin(fresh, false, PastEpoch{l.Epoch, l.Version})
		l.Identity = identity
	}
	x.remove(id)
	x.finish()
	return true
}

// enter begins a new epoch if there has to be one. lost: the report's proxy has seen more of its epoch than the ledger has.
func (x *exchange) enter(r *Report, identity string, fresh Epoch) (lost bool) {
	past := slices.IndexFunc(x.Past, func(p PastEpoch) bool { return p.Epoch == r.Epoch })
	stranger := r.Epoch != "" && r.Epoch != x.Epoch && past < 0
	unused, restored := x.Epoch == "", x.restored(r)
	if unused || restored || x.moved(identity) || (stranger && !x.LeftOut.has(GuardStranger)) {
		var before []PastEpoch
		switch {
		case restored: // which versions it had is not known
			before = append(before, PastEpoch{x.Epoch, -1})
		case !unused:
			before = append(before, PastEpoch{x.Epoch, x.Version})
		}
		if stranger {
			before = append(before, PastEpoch{r.Epoch, -1})
		}
		x.begin(fresh, unused && r.Epoch == "" && (x.Identity == "" || x.Identity == identity), before...)
	}
	x.Identity = identity
	if r.Epoch == "" || r.Epoch == x.Epoch || x.LeftOut.has(GuardOthers) {
		return false
	}
	past = slices.IndexFunc(x.Past, func(p PastEpoch) bool { return p.Epoch == r.Epoch })
	return past < 0 || r.Version > x.Past[past].Version
}

// moved reports whether the database is another process than the one that last kept the ledger.
func (l *Ledger) moved(identity string) bool {
	return l.Identity != identity && !l.LeftOut.has(GuardIdentity)
}

// begin begins a new epoch. before are those that are past now, and that the ledger does not have among them yet.
func (x *exchange) begin(fresh Epoch, settled bool, before ...PastEpoch) {
	past := slices.Concat(x.Past, before)
	x.Past = slices.Clone(past[max(0, len(past)-pastEpochs):])
	x.Departed = slices.Clone(x.Departed)
	for i := range x.Departed {
		x.Departed[i].Past = true
	}
	x.Epoch, x.Settled, x.changed = fresh, settled || x.LeftOut.has(GuardLease), true
}

// restored reports whether the ledger has less than it had in this epoch: a report has seen a later version of it, or comes from a proxy that
// the ledger knew in this epoch and did not see leave. The tables were put back to an earlier state, or emptied. A full report
// depends on no version: it says what its proxy holds, whatever the ledger has forgotten.
func (x *exchange) restored(r *Report) bool {
	if r.Epoch == "" || r.Epoch != x.Epoch {
		return false
	}
	return !r.Full && r.Version > x.Version || x.Members[r.ID] == nil && x.departed(r.ID) < 0
}

// about takes over what a proxy says of itself.
func (x *exchange) about(m *Member, about Member) {
	said := about
	said.ID, said.Seen, said.Heartbeats, said.Epoch, said.Sequence = m.ID, m.Seen, m.Heartbeats, m.Epoch, m.Sequence
	said.Started = about.Started.Round(0).UTC()
	was := *m
	was.Started, was.Sessions = was.Started.Round(0).UTC(), said.Sessions
	if was != said {
		x.changed = true
	}
	*m = said
}

// invalidate notes that the ledger does not know what a proxy holds.
func (x *exchange) invalidate(m *Member) {
	if m.Epoch != "" {
		m.Epoch, x.changed = "", true
	}
}

// recordClaims takes over a report's claims.
func (x *exchange) recordClaims(m *Member, r *Report) {
	if m.Epoch != x.Epoch {
		m.Epoch, x.changed = x.Epoch, true
		for i := range r.Others {
			o := r.Others[i]
			if x.Members[o.ID] != nil || x.hasLeft(o.ID) {
				continue
			}
			o.Epoch, o.Sequence, o.Heartbeats = "", 0, 0
			x.Members[o.ID] = &o
		}
	}
	if i := x.departed(m.ID); i >= 0 {
		x.Departed, x.changed = slices.Delete(slices.Clone(x.Departed), i, i+1), true
	}
	if r.Settle && !x.Settled {
		x.Settled, x.changed = true, true
	}
	if r.Full {
		for server, a := range x.Accounts {
			if _, named := r.Claims[server]; !named && a.index(m.ID) >= 0 {
				x.touch(a).set(m.ID, 0, Claim{})
			}
		}
	}
	for server, c := range r.Claims {
		a := x.Accounts[server]
		if a == nil {
			if c == (Claim{}) {
				continue
			}
			a = &Account{Server: server}
			x.Accounts[server] = a
		}
		x.touch(a).set(m.ID, c.Holds, c)
	}
}

// mayRemove reports whether a proof of death counts. Processes with one state directory may use places of each other's of which the ledger does not know
// yet. So as long as one of them is left, only they prove each other's end.
func (x *exchange) mayRemove(r *Report, id ID) bool {
	instance := x.Members[id].Instance
	if instance == "" || instance == r.About.Instance || x.LeftOut.has(GuardLent) {
		return true
	}
	for other, m := range x.Members {
		dies := slices.ContainsFunc(r.Dead, func(d Death) bool { return d.ID == other && d.Proven })
		if m.Instance == instance && !dies {
			return false
		}
	}
	return true
}

// remove removes a member and its grants.
func (x *exchange) remove(id ID) {
	for _, a := range x.Accounts {
		if a.index(id) >= 0 {
			x.touch(a).set(id, 0, Claim{})
		}
	}
	left := Departed{ID: id, Sequence: x.sequence(id)}
	if i := x.departed(id); i >= 0 {
		x.Departed = slices.Delete(slices.Clone(x.Departed), i, i+1)
	}
	x.Departed = append(slices.Clone(x.Departed[max(0, len(x.Departed)+1-keptDeparted):]), left)
	delete(x.Members, id)
	x.changed = true
}

// touch must be called before an account is changed, and returns it.
func (x *exchange) touch(a *Account) *Account {
	if _, touched := x.before[a.Server]; !touched {
		x.before[a.Server] = a.Clone()
	}
	return a
}

// finish gives the ledger, and the accounts that have changed so that others must know, a new version.
func (x *exchange) finish() {
	var tell, note []*Account
	for server, before := range x.before {
		a := x.Accounts[server]
		switch {
		case slices.Equal(before.Grants, a.Grants):
		case mustTell(&before, a), !a.isLarge() && worthTelling(&before, a):
			tell = append(tell, a)
			x.changed = true
		case a.isLarge() && worthTelling(&before, a):
			note = append(note, a)
		}
	}
	if x.changed {
		x.Version++
	}
	for _, a := range tell {
		a.Version = x.Version
	}
	for _, a := range note {
		a.Version = x.Version + 1
	}
	for server, a := range x.Accounts {
		if _, touched := x.before[server]; x.changed && !touched && a.IsEmpty() && a.Version < x.Version-keptEmpty {
			delete(x.Accounts, server)
		}
	}
}

// publish gives the ledger the version that accounts have already, so that no proxy reads them again and again. In a large fleet, one proxy's
// exchanges do so.
func (x *exchange) publish(by ID) {
	if len(x.Members) <= smallFleet {
		return
	}
	for id := range x.Members {
		if id < by {
			return
		}
	}
	for _, a := range x.Accounts {
		if a.Version > x.Version {
			x.changed = true
		}
	}
}

// sequence returns the sequence number of a proxy's last report; 0 if the ledger knows of none.
func (l *Ledger) sequence(id ID) uint64 {
	n := uint64(0)
	if m := l.Members[id]; m != nil {
		n = m.Sequence
	}
	if i := l.departed(id); i >= 0 && !l.LeftOut.has(GuardDeparted) {
		n = max(n, l.Departed[i].Sequence)
	}
	return n
}

// heartbeats returns how many exchanges a member has made; 0 if it is none.
func (l *Ledger) heartbeats(id ID) uint64 {
	if m := l.Members[id]; m != nil {
		return m.Heartbeats
	}
	return 0
}

// departed returns the index of a proxy among those that left; -1 if it did not.
func (l *Ledger) departed(id ID) int {
	return slices.IndexFunc(l.Departed, func(d Departed) bool { return d.ID == id })
}

// missing returns the members that have not said in this epoch what they hold, by ID.
func (l *Ledger) missing() []ID {
	if l.LeftOut.has(GuardMissing) {
		return nil
	}
	var ids []ID
	for id, m := range l.Members {
		if m.Epoch != l.Epoch {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// hasLeft reports whether a proxy that another one knew before the epoch began is known to have departed since. One that departed earlier has come
// back: the other knew it in a later version than the ledger began the epoch with.
func (l *Ledger) hasLeft(id ID) bool {
	i := l.departed(id)
	return i >= 0 && (!l.Departed[i].Past || l.LeftOut.has(GuardReturned))
}

// ByName returns copies of all members, by name.
func (l *Ledger) ByName() []Member {
	return slices.SortedFunc(slices.Values(l.members()), func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}

// members returns copies of all members, by ID.
func (l *Ledger) members() []Member {
	all := make([]Member, 0, len(l.Members))
	for _, id := range slices.Sorted(maps.Keys(l.Members)) {
		all = append(all, *l.Members[id])
	}
	return all
}

// Cap returns how many places the server has: the least that any proxy with a grant or claim there knows; 0 if none of them knows. What those know
// that drain, whose configuration may be old, counts only if all do.
func (a *Account) Cap() int {
	least, draining := 0, 0
	for i := range a.Grants {
		switch c := a.Grants[i].Claim.Cap; {
		case c > 0 && (least == 0 || c < least):
			least = c
		case c < 0 && (draining == 0 || -c < draining):
			draining = -c
		}
	}
	return cmp.Or(least, draining)
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

// set replaces a proxy's grant. Nothing at all removes it. Grants stay in the order of their proxies.
func (a *Account) set(id ID, places int, c Claim) {
	i, found := slices.BinarySearchFunc(a.Grants, id, func(g Grant, id ID) int { return cmp.Compare(g.Proxy, id) })
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

// Clone returns a copy that shares nothing with the account.
func (a *Account) Clone() Account {
	c := *a
	c.Grants = slices.Clone(a.Grants)
	return c
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
