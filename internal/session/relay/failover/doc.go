// Package failover decides how a session outlives its servers. It is data, like the session's life: it does no I/O, has no clock and calls
// no other part. The session reports what happens ([Machine.Handle]) and carries out the actions that follow.
//
//   - machine.go: the states, the table of their transitions, what each event leads to, what protects servers from sessions that kill them,
//     and whose fault a failure is
//   - pendingmove.go: a move to another server that was ordered and waits for its moment
//   - stall.go: when a server that says nothing has stalled
//
// What was kept of the client's messages, and where it is sent, stays with the session: the machine knows messages by their numbers.
package failover
