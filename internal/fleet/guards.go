package fleet

// guard is one of the rules that keep the protocol safe or live. Tests leave each of them out to see that the exploration finds it.
type guard int

// guardSet is a set of guards.
type guardSet uint32

func (s guardSet) off(g guard) bool { return s&(1<<g) != 0 }

// guards are those that a test has left out. It is written by tests alone, before they use anything of the package.
var guards guardSet

// The ledger's guards.
const (
	guardSequence guard = iota // ignore a report that arrives after a later one
	guardDeparted              // remember the sequence numbers of those that left
	guardIdentity              // begin a new epoch when the database is another
	guardStranger              // begin a new epoch when a report names one that the ledger has never had
	guardJoin                  // let a new proxy say in the epoch at hand that it holds nothing, while that is not settled or it is waited for
	guardLease                 // wait for one lease time in a new epoch
	guardMissing               // wait for all known proxies in a new epoch
	guardOthers                // ask for the proxies that were lost
	guardFrozen                // grant nothing while frozen
	guardFree                  // grant only what is free
	guardBeats                 // do not take a proxy for dead that has been seen since
	guardReturned              // wait also for those that departed before the epoch if another has seen them since
	guardLent                  // believe no stranger that one of two processes that may lend each other places is dead
	guardForget                // begin a new epoch before a proxy is forgotten when the database is another
)

// The holder's guards.
const (
	guardUsed     guard = iota + 16 // hold what is used, even above the limit
	guardGranted                    // do not raise the limit above what the last report said
	guardForgot                     // lower the limit to what is used after having been forgotten
	guardTimeout                    // lower the limit when others may take the places
	guardAnswered                   // ignore the answer of an earlier report
)
