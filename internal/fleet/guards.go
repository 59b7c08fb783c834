package fleet

// Guard is one of the rules that keep the protocol safe or live. The exploration (internal/proof/explore) leaves each of them out to see that
// it then finds what the rule is for.
type Guard int

// Guards is a set of rules that are left out of a [Ledger] or [Holder]. The zero value, which is all that proxies use, leaves out none.
type Guards uint32

// Without returns the set that leaves out one rule.
func Without(g Guard) Guards { return 1 << g }

func (s Guards) has(g Guard) bool { return s&Without(g) != 0 }

// The ledger's guards.
const (
	GuardSequence   Guard = iota // ignore a report that arrives after a later one
	GuardDeparted                // remember the sequence numbers of those that left
	GuardIdentity                // begin a new epoch when the database is another
	GuardStranger                // begin a new epoch when a report names one that the ledger has never had
	GuardJoin                    // let a new proxy say in the current epoch that it holds nothing, while that is not settled or it is waited for
	GuardLease                   // wait for one lease time in a new epoch
	GuardMissing                 // wait for all known proxies in a new epoch
	GuardOthers                  // ask for the proxies that were lost
	GuardFrozen                  // grant nothing while frozen
	GuardFree                    // grant only what is free
	GuardHeartbeats              // do not take a proxy for dead that has been seen since
	GuardReturned                // wait also for those that departed before the epoch if another has seen them since
	GuardLent                    // believe no stranger that one of two processes that may lend each other places is dead
	GuardForget                  // begin a new epoch before a proxy is forgotten when the database is another
)

// The holder's guards.
const (
	GuardUsed     Guard = iota + 16 // hold what is used, even above the limit
	GuardGranted                    // do not raise the limit above what the last report said
	GuardForgot                     // lower the limit to what is used after having been forgotten
	GuardTimeout                    // lower the limit when others may take the places
	GuardAnswered                   // ignore the answer of an earlier report
)
