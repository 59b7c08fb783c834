// Package fleet is the storey that shares the places of servers among the proxies that share a database; the wiring (app) and the proofs
// import it. This package is the protocol alone: no I/O, no clock.
//
// A grant is the number of places of one server that one proxy may use: the limit of its pool. The ledger ([Ledger]) has all grants and
// is kept by a store (internal/fleet/postgres, sqlite), which runs each exchange as one transaction. Each proxy has a holder
// ([Holder]), which says what the proxy has, uses and wants ([Report]), and learns what it may use ([Answer]). An agent
// (internal/fleet/agent) carries reports to the store about once a second, and answers to the pools.
//
// What keeps the sum of all proxies' connections to a server within its cap, whatever is lost, late or repeated:
//
//   - A holder raises its limit only after the ledger has granted the places, and lowers it, and sees the connections closed, before
//     the ledger hears of it. So the ledger never has less for a proxy than that may use.
//   - The ledger grants only what is free below the cap, in a transaction that locks the server's account. The cap is the least that
//     any proxy on the server's account knows, but for those that drain beside others.
//   - Reports have a sequence number. The ledger ignores one that arrives after a later one.
//   - The ledger belongs to an [Epoch]. A new one begins when the database is not the one that the grants were made under (it was
//     restarted, or failed over and may have forgotten the last commits), when a report names an epoch that the ledger has never had, or when
//     one has seen more of this epoch than the ledger has (its tables were restored or emptied).
//     Until all known proxies have said in the new epoch what they hold, and one lease time has passed, nothing is granted or reclaimed.
//   - A proxy that has seen more of the ledger than a new epoch began with names the others that it knew: they are known proxies, too.
//   - The ledger keeps the sequence numbers of the last proxies that left or were forgotten, so that a report that was under way
//     cannot bring them back.
//   - The places of a proxy that is no longer seen stay charged until it is proven dead, an operator says so ([Store.Forget]), or the
//     grant time-out has passed, if there is one. Liveness and elapsed times are judged by observers' monotonic clocks, never by a
//     wall clock, so clocks may be wrong and jump.
//
// allocation.go decides who gives places, who takes them, and who is woken; ledger.go and holder.go carry it out; loans.go has the places that two
// processes lend each other; guards.go names the rules. What a proxy does while its database is away is in agent/databaseoutage.go, how it is found that
// another is dead in presence, and how proxies ask and trust each other in peers.
package fleet
