package explore

import (
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Names and numbers of the real holder and ledger of an exchange. Only how they compare matters.
const (
	identity, otherIdentity            = "this", "that"
	hereEpoch, pastEpoch, strangeEpoch = fleet.Epoch("here"), fleet.Epoch("past"), fleet.Epoch("strange")
	freshEpoch                         = fleet.Epoch("fresh")

	ledgerVersion, accountVersion, pastVersion = 100, 50, 50
	lowVersion, highVersion                    = 20, 70
	ledgerHeartbeats                           = 10
)

// names are the IDs of processes. Among equals their order decides.
type names struct {
	of    [maxIDs]fleet.ID
	index [maxProxies]uint8 // by letter
	per   uint8             // processes at a position
	order []uint8           // the processes in the order of their IDs
	// leftOut are the rules that the holders and ledgers with these names do not have.
	leftOut fleet.Guards
}

func newNames(o *Options, order []int) *names {
	per := o.generations()
	n := &names{per: uint8(per), leftOut: o.LeftOut}
	for position, letter := range order {
		n.index[letter] = uint8(position)
		for g := range per {
			n.of[position*per+g] = fleet.ID([]byte{'a' + byte(letter), '0' + byte(g)})
		}
	}
	for letter := range order {
		for g := range per {
			n.order = append(n.order, n.index[letter]*n.per+uint8(g))
		}
	}
	return n
}

func (n *names) id(name fleet.ID) uint8 { return n.index[name[0]-'a']*n.per + name[1] - '0' }

// list returns the names of processes, and set the processes with names.
func (n *names) list(some ids) (all []fleet.ID) {
	for id := range some.all() {
		all = append(all, n.of[id])
	}
	return all
}

func (n *names) set(all []fleet.ID) (some ids) {
	for _, name := range all {
		some |= one(n.id(name))
	}
	return some
}

// among returns the order of some of the IDs, as a number.
func (n *names) among(some ids) (order uint64) {
	for _, id := range n.order {
		if some.has(id) {
			order = order<<4 | uint64(id) + 1
		}
	}
	return order
}

// question is an exchange, or a report that arrives. It is a key of the results that are kept.
type question struct {
	ledger   ledger
	relation uint8 // of the report's proxy to the ledger
	known    bool
	// arrives: the report is all there is; otherwise it is the holder's next.
	arrives bool
	report  report

	id             uint8
	holder         holder
	used, demand   uint8
	expired, waits bool // waits: a lease time has passed
	proven         ids  // processes that are proven dead by now
	timedOut       ids
}

// result is what comes of a question.
type result struct {
	ledger ledger
	holder holder
	answer answer
	// How the ledger's epoch and version have changed. restored: what it knows of its last epoch is not all. accountChanged: so has the account's version.
	began, restored, version, accountChanged bool
}

// failure is what comes of a question without an answer.
type failure struct {
	holder holder
	report report
}

func (r *reader) real() (fleet.Epoch, int64) {
	return realOf(r.relation[current], r.known)
}

func realOf(relation uint8, known bool) (fleet.Epoch, int64) {
	if !known {
		return "", 0
	}
	switch relation {
	case pastWithin:
		return pastEpoch, lowVersion
	case pastBeyond:
		return pastEpoch, highVersion
	case behind:
		return hereEpoch, lowVersion
	case within:
		return hereEpoch, highVersion
	case beyond:
		return hereEpoch, ledgerVersion + 1
	}
	return strangeEpoch, highVersion
}

// ask makes the holder of a question, and its report.
func (n *names) ask(q *question, cap int) (h *fleet.Holder, r *fleet.Report, now fleet.Instant) {
	epoch, version := realOf(q.relation, q.known)
	h = n.holder(q.id, &q.holder, epoch, version, cap)
	for id := range q.proven.all() {
		h.Died(n.of[id])
	}
	if q.expired {
		now = fleet.Instant(timeout)
	}
	asked := now
	if q.waits {
		asked = max(asked, fleet.Instant(fleet.Lease))
	}
	h.Use(server, usage(cap, q.used, q.demand))
	r = h.Report(asked)
	r.Settle = r.Settle && q.waits // its time-out may pass, too, but only [machine.maySettle] says whether a lease time can have passed for all
	for id := range q.timedOut.all() {
		r.Dead = append(r.Dead, fleet.Death{ID: n.of[id], Heartbeats: realHeartbeats(q.holder.fresh, id)})
	}
	return h, r, now
}

// answer works a question out with a real holder and a real ledger.
func (n *names) answer(q *question, cap int) (to result) {
	l := n.ledger(&q.ledger, cap)
	if q.relation == pastWithin || q.relation == pastBeyond {
		l.Past = []fleet.PastEpoch{{Epoch: pastEpoch, Version: pastVersion}}
	}
	var h *fleet.Holder
	var r *fleet.Report
	if q.arrives {
		epoch, version := realOf(q.relation, q.known)
		r = n.report(&q.report, epoch, version, cap)
	} else {
		h, r, _ = n.ask(q, cap)
	}
	a := l.Exchange(r, identity, freshEpoch)
	to = n.after(l)
	to.answer = n.flatAnswer(a)
	if h != nil {
		h.Answered(r, a, 0, 0)
		to.holder = n.flatHolder(h, q.id, l)
	}
	return to
}

// fail works out what a holder is that gets no answer.
func (n *names) fail(q *question, cap int) failure {
	h, r, now := n.ask(q, cap)
	to := failure{report: n.flatReport(r)}
	h.Failed(r, now)
	to.holder = n.flatHolder(h, q.id, nil)
	return to
}

// late lets an answer arrive whose report was given up.
func (n *names) late(p *proxy, id uint8, f *flight, cap int) holder {
	epoch, version := p.at.real()
	h := n.holder(id, &p.holder, epoch, version, cap)
	h.Use(server, usage(cap, p.used, 0))
	a := &f.answer
	late := &fleet.Answer{
		Epoch: freshEpoch, Version: ledgerVersion, Frozen: a.frozen, Settled: a.settled, Again: a.again, Forgotten: a.forgotten, Lost: a.lost,
		Stale: a.stale,
	}
	if here(f.at.relation[current]) && here(p.at.relation[current]) {
		late.Epoch = hereEpoch
	}
	for other := range a.members.all() {
		late.Members = append(late.Members, fleet.Member{ID: n.of[other], Heartbeats: ledgerHeartbeats})
	}
	if a.account {
		late.Accounts = []fleet.Account{{Server: server, Version: accountVersion, Grants: n.grants(&a.grants, cap)}}
	}
	h.Answered(n.report(&f.report, epoch, version, cap), late, 0, 0)
	return n.flatHolder(h, id, nil)
}

// expire lets a holder's grant time-out pass.
func (n *names) expire(p *proxy, id uint8, used int, cap int) holder {
	epoch, version := p.at.real()
	h := n.holder(id, &p.holder, epoch, version, cap)
	h.Use(server, usage(cap, uint8(used), 0))
	h.Expire(fleet.Instant(timeout))
	return n.flatHolder(h, id, nil)
}

// forget lets an operator forget a process.
func (n *names) forget(from *ledger, id uint8, cap int) result {
	l := n.ledger(from, cap)
	l.Forget(n.of[id], identity, freshEpoch)
	return n.after(l)
}

// after returns how a ledger has changed.
func (n *names) after(l *fleet.Ledger) result {
	version, account := l.Version != ledgerVersion, l.Accounts[server]
	return result{
		ledger: n.flatLedger(l), began: l.Epoch == freshEpoch, version: version,
		restored:       slices.Contains(l.Past, fleet.PastEpoch{Epoch: hereEpoch, Version: -1}),
		accountChanged: version && account != nil && account.Version == l.Version,
	}
}

func usage(cap int, used, demand uint8) fleet.Usage {
	return fleet.Usage{Cap: cap, Used: int(used), Needs: int(demand), Wants: int(demand)}
}

// realHeartbeats are what a member's exchanges are, as a reader knows, or one less if it has made one since.
func realHeartbeats(fresh ids, id uint8) uint64 {
	if fresh.has(id) {
		return ledgerHeartbeats
	}
	return ledgerHeartbeats - 1
}

func (n *names) ledger(l *ledger, cap int) *fleet.Ledger {
	to := &fleet.Ledger{
		Identity: otherIdentity, Epoch: hereEpoch, Settled: l.settled, Version: ledgerVersion, LeftOut: n.leftOut,
		Members: make(map[fleet.ID]*fleet.Member), Accounts: make(map[string]*fleet.Account),
	}
	if l.own {
		to.Identity = identity
	}
	if l.unused {
		to.Epoch = ""
	}
	for id := range l.members.all() {
		m := &fleet.Member{ID: n.of[id], Sequence: uint64(l.sequence[id]), Heartbeats: ledgerHeartbeats}
		switch l.reported[id] {
		case reportedEarlier:
			m.Epoch = pastEpoch
		case reportedHere:
			m.Epoch = to.Epoch
		}
		to.Members[m.ID] = m
	}
	for id := range l.departed.all() {
		to.Departed = append(to.Departed, fleet.Departed{ID: n.of[id], Sequence: uint64(l.parted[id]), Past: l.past.has(id)})
	}
	if l.account {
		to.Accounts[server] = &fleet.Account{Server: server, Version: accountVersion, Grants: n.grants(&l.grants, cap)}
	}
	return to
}

func (n *names) flatLedger(l *fleet.Ledger) (to ledger) {
	to = ledger{exists: true, own: l.Identity == identity, settled: l.Settled, unused: l.Epoch == ""}
	for name, m := range l.Members {
		id := n.id(name)
		to.members |= one(id)
		to.sequence[id] = uint8(m.Sequence)
		switch m.Epoch {
		case "":
		case l.Epoch:
			to.reported[id] = reportedHere
		default:
			to.reported[id] = reportedEarlier
		}
	}
	for _, d := range l.Departed {
		id := n.id(d.ID)
		to.departed |= one(id)
		if d.Past {
			to.past |= one(id)
		}
		to.parted[id] = uint8(d.Sequence)
	}
	if a := l.Accounts[server]; a != nil {
		to.account, to.grants = true, n.flatGrants(a.Grants)
	}
	return to
}

func (n *names) holder(id uint8, h *holder, epoch fleet.Epoch, version int64, cap int) *fleet.Holder {
	state := fleet.HolderState{Sequence: uint64(h.sequence), Epoch: epoch, Version: version, NeedsFull: h.needsFull, Frozen: h.frozen, Settled: h.settled}
	state.Lost, state.Dead = n.list(h.lost), n.list(h.dead)
	for other := range h.members.all() {
		state.Members = append(state.Members, fleet.Known{ID: n.of[other], Heartbeats: realHeartbeats(h.fresh, other)})
	}
	s := fleet.ServerState{Granted: int(h.granted), Limit: int(h.limit), Reported: h.reported.claim(cap), Dirty: h.dirty, Short: h.short}
	if h.account {
		s.Account = &fleet.Account{Server: server, Grants: n.grants(&h.view, cap)}
	}
	state.Servers = map[string]fleet.ServerState{server: s}
	return fleet.RestoreHolder(fleet.HolderOptions{ID: n.of[id], Timeout: timeout, LeftOut: n.leftOut}, &state)
}

// flatHolder makes a holder flat. after is the ledger whose answer it has had; nil for none.
func (n *names) flatHolder(h *fleet.Holder, self uint8, after *fleet.Ledger) (to holder) {
	state := h.State()
	to = holder{sequence: uint8(state.Sequence), needsFull: state.NeedsFull, frozen: state.Frozen, settled: state.Settled}
	to.lost, to.dead = n.set(state.Lost), n.set(state.Dead)
	for _, k := range state.Members {
		id := n.id(k.ID)
		to.members |= one(id)
		fresh := k.Heartbeats >= ledgerHeartbeats
		if after != nil {
			m := after.Members[k.ID]
			fresh = m != nil && m.Heartbeats == k.Heartbeats
		}
		if fresh {
			to.fresh |= one(id)
		}
	}
	s := state.Servers[server]
	to.granted, to.limit, to.reported = uint8(s.Granted), uint8(s.Limit), flatClaim(s.Reported)
	to.reported.holds = 0 // nothing reads it
	to.dirty, to.short, to.account = s.Dirty, s.Short, s.Account != nil
	if s.Account != nil {
		to.view = n.flatGrants(s.Account.Grants)
		to.view.there &^= one(self)
		to.view.of[self] = grant{}
		for i := range to.view.of {
			to.view.of[i].holds = 0 // fair shares depend on places, needs and wants
		}
	}
	return to
}

func (g grant) claim(cap int) fleet.Claim {
	return fleet.Claim{Cap: cap, Holds: int(g.holds), Needs: int(g.needs), Wants: int(g.wants)}
}

func flatClaim(c fleet.Claim) grant {
	return grant{holds: uint8(c.Holds), needs: uint8(c.Needs), wants: uint8(c.Wants)}
}

func (n *names) grants(g *grants, cap int) []fleet.Grant {
	all := make([]fleet.Grant, 0, 4)
	for id := range g.there.all() {
		all = append(all, fleet.Grant{Proxy: n.of[id], Places: int(g.of[id].places), Claim: g.of[id].claim(cap)})
	}
	slices.SortFunc(all, func(a, b fleet.Grant) int { return strings.Compare(string(a.Proxy), string(b.Proxy)) })
	return all
}

func (n *names) flatGrants(all []fleet.Grant) (to grants) {
	for i := range all {
		id := n.id(all[i].Proxy)
		to.there |= one(id)
		to.of[id] = flatClaim(all[i].Claim)
		to.of[id].places = uint8(all[i].Places)
	}
	return to
}

func (n *names) report(r *report, epoch fleet.Epoch, version int64, cap int) *fleet.Report {
	to := &fleet.Report{ID: n.of[r.id], Sequence: uint64(r.sequence), Epoch: epoch, Version: version, Full: r.full, Settle: r.settle}
	if r.named {
		to.Claims = map[string]fleet.Claim{server: r.claim.claim(cap)}
	}
	for id := range r.others.all() {
		to.Others = append(to.Others, fleet.Member{ID: n.of[id]})
	}
	for id := range r.proven.all() {
		to.Dead = append(to.Dead, fleet.Death{ID: n.of[id], Proven: true})
	}
	for id := range r.timedOut.all() {
		to.Dead = append(to.Dead, fleet.Death{ID: n.of[id], Heartbeats: realHeartbeats(r.fresh, id)})
	}
	return to
}

func (n *names) flatReport(r *fleet.Report) (to report) {
	to = report{id: n.id(r.ID), sequence: uint8(r.Sequence), full: r.Full, settle: r.Settle}
	if c, named := r.Claims[server]; named {
		to.named, to.claim = true, flatClaim(c)
	}
	for i := range r.Others {
		to.others |= one(n.id(r.Others[i].ID))
	}
	for _, d := range r.Dead {
		id := n.id(d.ID)
		if d.Proven {
			to.proven |= one(id)
			continue
		}
		to.timedOut |= one(id)
		if d.Heartbeats >= ledgerHeartbeats {
			to.fresh |= one(id)
		}
	}
	return to
}

func (n *names) flatAnswer(a *fleet.Answer) (to answer) {
	to = answer{again: a.Again, forgotten: a.Forgotten, lost: a.Lost, stale: a.Stale, frozen: a.Frozen, settled: a.Settled}
	for i := range a.Members {
		to.members |= one(n.id(a.Members[i].ID))
	}
	if len(a.Accounts) > 0 {
		to.account, to.grants = true, n.flatGrants(a.Accounts[0].Grants)
	}
	return to
}
