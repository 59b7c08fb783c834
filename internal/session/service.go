package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Service is what a client asks for by path: a set of backends that speak the same protocol, and the queue of the clients
// that wait for one of their connections. It is immutable: when something of it changes, another takes its place, and sessions
// keep the one that they began with.
type Service struct {
	// Name is what records and logs call it.
	Name string
	// Host is the host that clients ask for, in lower case and without a port; empty for any.
	Host string
	// Path is the path that clients ask for; empty for any.
	Path string
	// Group is the backends' pools and the queue.
	Group *pool.Group[*backend.Conn]
	// Profile is the profile of the servers' protocol.
	Profile *profile.Profile
	// Passing is what of a client's handshake the servers are told; nil for what the profile says. If it passes the path, the
	// service's path is where clients' paths begin.
	Passing *profile.Passing
	// Dropped tells the log what of it they are not told; nil for not at all.
	Dropped *Dropped
	// Variants are the meanings of the variants of connections, shared with the backends.
	Variants *backend.Variants
	// QueueTimeout bounds the wait for a connection.
	QueueTimeout time.Duration
	// HashBy is what a client's backend is chosen by, when the group is balanced so.
	HashBy HashBy

	// Origins are the values of the Origin header that are accepted; none for any. Requests without the header do not come
	// from browsers and are always accepted.
	Origins []string
	// MaxMessage is the largest message, in bytes, that a client may send; 0 for no limit.
	MaxMessage int64
	// IdleTimeout ends a session in which no data frame passed either way for so long; 0 for never.
	IdleTimeout time.Duration
	// MaxDuration ends a session that has lasted so long; 0 for never.
	MaxDuration time.Duration
	// CloseTimeout bounds each side's part in closing a session.
	CloseTimeout time.Duration

	// Removed is closed when there is no such service any more, for the clients that wait; nil for a service that stays.
	Removed <-chan struct{}
}

// HashBy is the part of a request that names a client for [pool.Hash]: a header, a query parameter, or the client's address
// if both are empty.
type HashBy struct {
	Header string
	Query  string
}

// key returns the client's key. Requests that do not have the part have the same one.
func (h HashBy) key(req *handshake.Request, address string) uint64 {
	switch {
	case h.Header != "":
		return pool.HashKey(req.Header.Get(h.Header))
	case h.Query != "":
		return pool.HashKey(req.URL.Query().Get(h.Query))
	}
	return pool.HashKey(address)
}
