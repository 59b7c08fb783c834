// Package session is the storey that serves clients: it answers their upgrade requests, leases each a pooled connection, relays frames both
// ways until one side ends, and tells both sides why. The wiring (app) and the traces (operate) import it.
//
// A [Server] may be used from any goroutine. A session belongs to the event loop that owns both its client's and its
// backend's connection, and runs on that loop's goroutine only.
package session
