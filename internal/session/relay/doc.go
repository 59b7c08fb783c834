// Package relay serves sessions: from the lease that admission hands over to the last close frame it relays frames both ways, ends the session,
// and tells both sides why. It also knows all sessions of the process, for operators and jobs.
//
//   - sessions.go, registry.go: all sessions, what they share, and how others reach them; describe.go, kill.go, lag.go, tapped.go: what
//     operators see and do
//   - session.go, leg.go: one session, and the part of it that one lease serves
//   - life.go: its states, the table of their transitions, and what each event leads to
//   - relay.go, direction.go, boundary.go, chain.go: the path of a frame
//   - events.go, ending.go, retire.go: what happens to a session, and how it ends; limits.go, limited.go, credential.go: why the proxy ends it
//   - move.go: to another connection; pendingmove.go: because a job has ordered it
//   - recovery.go, recoveryup.go, recoverydown.go, recoveryleg.go, assembly.go: the messages of a session that may outlive its server. The
//     machine of package failover decides.
//
// A session belongs to the event loop that owns both its client's and its backend's connection, and runs on that loop's goroutine only. Package
// session joins this package with admission and jobs.
package relay
