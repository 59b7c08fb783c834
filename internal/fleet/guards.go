package fleet

// Guard is one of the rules that keep the protocol safe or live. The exploration (internal/proof/explore) leaves each of them out to see that
// it then finds what the rule is for.
type Guard int

// Guards is a set of rules that are left out of a [Ledger] or [Holder]. The zero value, which is all that proxies use, leaves out none.
type Guards uint32

// Without returns the set that leaves out one rule.
func Without(g Guard) Guards { return 1 << g }

func (s Guards) has(g Guard) bool { return s&Without(g) != 0 }

// The ledger's guards. Each comment has the rule, and what happens without it.
const (
	// Ignore a report that arrives after a later one: it would lower a grant that has been raised since.
	GuardSequence Guard = iota
	// Remember the sequence numbers of the last 128 that left: an old report would bring one back with less than it has.
	GuardDeparted
	// Begin a new epoch when the database is another: one that has forgotten the last grants would give the places to others.
	GuardIdentity
	// Begin a new epoch when a report names one that the ledger has never had: an old primary would grant what it remembers.
	GuardStranger
	// Let a new proxy report in the current epoch that it holds nothing, while that is not settled or it is waited for: its first report from
	// before a failover would arrive after it, and count.
	GuardJoin
	// Wait for one lease time in a new epoch: a proxy whose joining was forgotten would have no time to report what it holds.
	GuardLease
	// Wait for all known proxies in a new epoch, or one that is cut off from the database would not be waited for.
	GuardMissing
	// Ask for the proxies that were lost: one whose joining was forgotten, and that is cut off, would be unknown.
	GuardOthers
	// Grant nothing while frozen: not all have reported.
	GuardFrozen
	// Grant only what is free: two proxies would get all places.
	GuardFree
	// Do not take a proxy for dead that has been seen since: it relies on its grants.
	GuardHeartbeats
	// Wait also for those that departed before the epoch if another has seen them since: a failover forgets that a forgotten proxy came back.
	GuardReturned
	// Believe no stranger that one of two processes that may lend each other places is dead: what it has lent would be given away.
	GuardLent
	// Begin a new epoch before a proxy is forgotten when the database is another: the version that the forgetting adds would hide that commits
	// were lost, and no proxy would be asked whom they were about.
	GuardForget
)

// The holder's guards.
const (
	// Hold what is used, even above the limit: places whose sessions have not ended would be given away.
	GuardUsed Guard = iota + 16
	// Do not raise the limit above what the last report has: one that seemed lost may arrive later, and the ledger gives the places away.
	GuardGranted
	// Lower the limit to what is used after having been forgotten: the places are others' by now.
	GuardForgot
	// Lower the limit when others may take the places.
	GuardTimeout
	// Ignore the answer of an earlier report: it would raise a limit that the ledger has lowered since.
	GuardAnswered
)
