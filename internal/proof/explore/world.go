// Package explore explores the protocol of package fleet exhaustively for a few proxies and one server: every interleaving of exchanges,
// connections, losses, crashes and failovers, with the real ledger and the real holders. It is called by tests and by its command.
//
// A state is a flat value ([world]) in a normal form: what can never matter again is dropped, and numbers and names are replaced by how
// they compare with those that they can still be compared with. Two states are the same if they are equal in each byte, so the number of
// states does not depend on the order in which they are found. What holders and ledgers do is not modelled: for each exchange, a real holder
// and a real ledger are made of the flat ones (conversion.go), and what comes of them is made flat again. The lockstep test runs real ones
// beside, which are never made flat, and compares.
package explore

import (
	"iter"
	"math/bits"
	"time"
)

const (
	server = "s"
	// timeout is the holders' grant time-out. Time does not pass by itself; an action makes it pass.
	timeout = time.Hour

	maxProxies = 3
	maxIDs     = 8
	maxCommits = 3
	maxFlights = 2
	maxLedgers = 2 + maxCommits
)

// Faults are how often each kind of fault may happen in one run of a world.
type Faults struct {
	Total     int // of all kinds together, apart from losses and restarts
	Losses    int // a request or an answer is lost
	Delays    int // a report arrives after later ones
	Answers   int // an answer arrives after its report was given up
	Crashes   int
	Restarts  int // a new process instead of one that crashed
	Cuts      int // a proxy cannot reach the database for a lease time or longer
	Timeouts  int // a grant time-out passes
	Forgets   int // an operator declares a proxy dead, whether it is or not
	Databases int // the database restarts, or fails over
	Lost      int // how many of the last commits a failover can lose
}

// faults are those that may still happen.
type faults struct {
	total, losses, delays, answers, crashes, restarts, cuts, timeouts, forgets, databases, lost uint8
}

// ids is a set of processes. Position p has the processes p*generations and those after it: one after the other, in the order of their starts.
type ids uint8

func (s ids) has(id uint8) bool { return s&(1<<id) != 0 }

func one(id uint8) ids { return 1 << id }

// all returns the processes in their order.
func (s ids) all() iter.Seq[uint8] {
	return func(yield func(uint8) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(uint8(bits.TrailingZeros8(uint8(s)))) {
				return
			}
		}
	}
}

// grant is what a ledger has for a process, or a claim. All processes know the same cap.
type grant struct{ places, holds, needs, wants uint8 }

// grants are those of one server.
type grants struct {
	there ids
	of    [maxIDs]grant
}

// In which epoch a member has last reported to a ledger what it holds.
const (
	reportedNever = iota
	reportedEarlier
	reportedHere
)

// ledger is one that there is or may be again.
type ledger struct {
	exists, own      bool // own: its identity is that of the database process that has it
	settled, unused  bool // unused: it has no epoch yet
	account          bool
	members          ids
	departed, past   ids           // past: of the departed, those that departed before the epoch
	reported         [maxIDs]uint8 // by member
	sequence, parted [maxIDs]uint8 // of members and of those that departed: how many of the reports under way are no later
	grants           grants
}

// Indexes of a world's ledgers.
const (
	current = iota
	old     // that of the database before the last failover
	commits // what the ledger was before the last exchange; those before follow
)

// How what a reader knows of the ledger compares with a ledger. A version is how much the reader has seen of an epoch.
const (
	unknown    = iota // the ledger has never had the epoch
	pastWithin        // the epoch is before the ledger's, which has had at least the version in it
	pastBeyond        // the same, and it has not
	behind            // the epoch is the ledger's, and the account has changed since the version
	within            // the epoch is the ledger's, and the account has not changed since the version
	beyond            // the epoch is the ledger's, which has not had the version yet
)

func here(relation uint8) bool { return relation >= behind }

// reader is what a process or message knows of the ledger.
type reader struct {
	known bool
	// epoch tells epochs apart which some ledger does not know; 0 for those that all know.
	epoch    uint8
	relation [maxLedgers]uint8
}

// holder is a fleet.Holder.
type holder struct {
	sequence                   uint8 // how many reports of it are under way
	needsFull, frozen, settled bool
	lost, dead, members        ids
	fresh                      ids // the members that have made no exchange since the holder's answer
	granted, limit             uint8
	reported                   grant
	dirty, short, account      bool
	view                       grants // the account, without its own grant
}

// proxy is the process at a position.
type proxy struct {
	dead       bool
	generation uint8
	cut        bool
	expired    bool  // its grant time-out has passed without an answer
	declared   bool  // it was declared dead although it lives, so what it has is beyond the cap
	used       uint8 // connections, if they are more than the limit; otherwise 0
	knows      ids   // processes that it has seen in an answer, and that were not removed since
	knew       ids   // processes that it has seen in an answer, and that were removed without its having heard of that
	at         reader
	holder     holder
}

// may is how many connections a process may have.
func (p *proxy) may() uint8 {
	if p.dead {
		return 0
	}
	return max(p.holder.limit, p.used)
}

// report is a fleet.Report.
type report struct {
	id, sequence        uint8
	full, settle, named bool
	claim               grant
	others              ids
	proven, timedOut    ids // of the dead
	fresh               ids // those of the dead that have made no exchange since
}

// answer is a fleet.Answer.
type answer struct {
	again, forgotten, lost, stale, frozen, settled, account bool
	members                                                 ids
	grants                                                  grants
}

// flight is a report that arrives later, or one whose answer does.
type flight struct {
	exists, late bool // late: the answer
	at           reader
	report       report
	answer       answer
}

// world is a state of everything. All of its fields are bytes.
type world struct {
	proxies [maxProxies]proxy
	ledgers [maxLedgers]ledger
	// lag is how the commits' versions compare with the ledger's.
	lag     [maxLedgers]uint8
	flights [maxFlights]flight
	left    faults
	// excess is by how many places the processes may be beyond the cap, because one of them was declared dead and came back.
	excess uint8
}

const (
	lagEpoch   = iota // another epoch
	lagNothing        // the same version
	lagVersion        // an earlier version of the same epoch
)

// readers calls a function for each that knows something of the ledger.
func (w *world) readers(do func(*reader)) {
	for i := range w.proxies {
		do(&w.proxies[i].at)
	}
	for i := range w.flights {
		do(&w.flights[i].at)
	}
}

// renaming gives processes other IDs.
type renaming struct {
	to        [maxIDs]uint8
	mentioned ids // the others are nowhere
	sets      [256]ids
	known     [256]bool // which of sets are worked out
}

func newRenaming(mentioned ids, to [maxIDs]uint8) *renaming {
	return &renaming{to: to, mentioned: mentioned}
}

func (r *renaming) set(s *ids) {
	if *s == 0 {
		return
	}
	if !r.known[*s] {
		renamed := ids(0)
		for id := range (*s & r.mentioned).all() {
			renamed |= one(r.to[id])
		}
		r.sets[*s], r.known[*s] = renamed, true
	}
	*s = r.sets[*s]
}

func (r *renaming) numbers(all *[maxIDs]uint8) {
	if *all == ([maxIDs]uint8{}) {
		return
	}
	var renamed [maxIDs]uint8
	for id, n := range all {
		if r.mentioned.has(uint8(id)) {
			renamed[r.to[id]] = n
		}
	}
	*all = renamed
}

func (r *renaming) grants(g *grants) {
	if g.there == 0 {
		return
	}
	var renamed [maxIDs]grant
	for id := range (g.there & r.mentioned).all() {
		renamed[r.to[id]] = g.of[id]
	}
	g.of = renamed
	r.set(&g.there)
}

func (r *renaming) holder(h *holder) {
	r.set(&h.lost)
	r.set(&h.dead)
	r.set(&h.members)
	r.set(&h.fresh)
	r.grants(&h.view)
}

func (r *renaming) ledger(l *ledger) {
	if !l.exists {
		return
	}
	r.set(&l.members)
	r.set(&l.departed)
	r.set(&l.past)
	r.numbers(&l.reported)
	r.numbers(&l.sequence)
	r.numbers(&l.parted)
	r.grants(&l.grants)
}

func (r *renaming) report(to *report) {
	to.id = r.to[to.id]
	r.set(&to.others)
	r.set(&to.proven)
	r.set(&to.timedOut)
	r.set(&to.fresh)
}

func (r *renaming) answer(a *answer) {
	r.set(&a.members)
	r.grants(&a.grants)
}

func (r *renaming) world(w *world) {
	for i := range w.proxies {
		r.set(&w.proxies[i].knows)
		r.set(&w.proxies[i].knew)
		r.holder(&w.proxies[i].holder)
	}
	for i := range w.ledgers {
		r.ledger(&w.ledgers[i])
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			r.report(&f.report)
			r.answer(&f.answer)
		}
	}
}

func (r *renaming) question(q *question) {
	r.ledger(&q.ledger)
	if q.arrives {
		r.report(&q.report)
		return
	}
	q.id = r.to[q.id]
	r.holder(&q.holder)
	r.set(&q.proven)
	r.set(&q.timedOut)
}

func (r *renaming) result(to *result) {
	r.ledger(&to.ledger)
	r.holder(&to.holder)
	r.answer(&to.answer)
}

// reposition returns the renaming that gives the proxies another order, and its reverse.
func reposition(order []int, per int) (to, back *renaming) {
	to, back = newRenaming(^ids(0), [maxIDs]uint8{}), newRenaming(^ids(0), [maxIDs]uint8{})
	for id := range uint8(maxIDs) {
		to.to[id], back.to[id] = id, id
	}
	for position, was := range order {
		for g := range per {
			to.to[was*per+g] = uint8(position*per + g)
			back.to[position*per+g] = uint8(was*per + g)
		}
	}
	return to, back
}
