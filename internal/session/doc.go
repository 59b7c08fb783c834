// Package session is the storey that serves clients: it answers their upgrade requests, leases each a pooled connection, relays frames both
// ways until one side ends, and tells both sides why. The wiring (app) and the traces (operate) import it.
//
// A [Server] joins the rooms, and any goroutine may use it: admission hands clients over to relay, and jobs work on relay's sessions. None of
// these three imports another one, except jobs, which imports relay.
package session
