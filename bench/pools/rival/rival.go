// Package rival says what the pools that are compared have in common.
package rival

import (
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// Settings are what a pool is made with. All are required.
type Settings struct {
	// Network is where the one server of the pool is.
	Network *network.Network
	// Size is how many connections the pool is to have, and the most that the server may see.
	Size int
	// CheckInterval is the time between two pings on a connection, as each design makes of it.
	CheckInterval time.Duration
	// PingTimeout bounds the wait for a pong, where one is awaited.
	PingTimeout time.Duration
	// DialTimeout bounds dialing one connection.
	DialTimeout time.Duration
}

// Pool is a pool of connections to one server. All methods may be called from any goroutine.
type Pool interface {
	// Lease takes a connection that nobody else has, until Return or Discard. It returns false when the pool has none now;
	// it does not wait for one to come back.
	Lease() (*network.Conn, bool)
	// Return ends the lease of a connection that can serve others.
	Return(*network.Conn)
	// Discard ends the lease of one that cannot. The pool closes it.
	Discard(*network.Conn)
	// Resize changes the size to one between 1 and that of the settings. Leases go on.
	Resize(size int)
	// Stats counts the connections.
	Stats() Stats
	// Close ends the pool, after all leases have ended, and returns when its goroutines have ended and its connections are
	// closed.
	Close()
}

// Stats is a pool's own count of its connections.
type Stats struct {
	Idle   int // that can be leased
	Leased int
	Unwell int // that are out of service but not closed, or dead and leased; part of neither or of Leased
}
