//go:build linux

package main

import (
	"time"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// connPool is a pool of connections to one server. All methods may be called from any goroutine.
type connPool interface {
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
	Stats() counts
	// Close ends the pool, after all leases have ended, and returns when its goroutines have ended and its connections are
	// closed.
	Close()
}

// settings are what a pool is made with. All are required.
type settings struct {
	network       *network.Network // where the one server of the pool is
	size          int              // connections that the pool should have, and the most that the server may see
	checkInterval time.Duration    // between two pings on a connection, as each design understands it
	pingTimeout   time.Duration    // for a pong, where one is awaited
	dialTimeout   time.Duration    // for one connection
}

// counts are a pool's own count of its connections.
type counts struct {
	idle   int // that can be leased
	leased int
	unwell int // out of service but not closed, or dead and leased; part of neither or of leased
}

// design is a pool to compare.
type design struct {
	name  string
	begin func(settings) connPool
}

// ours is the name of the design that the others are compared with.
const ours = "wsbouncer"

// designs are the pools that are compared.
var designs = []design{
	{"naivepool", func(s settings) connPool { return newNaivePool(s) }},
	{"channelpool", func(s settings) connPool { return newChannelPool(s) }},
	{ours, func(s settings) connPool { return newBouncer(s) }},
}

const (
	tick     = 5 * time.Second // between two looks of a worker at its pool without a signal; jittered
	parallel = 32              // most dials at once
)
