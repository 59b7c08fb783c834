package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// Service is what a client asks for by path: a set of backends that speak the same protocol, and the queue of the clients
// that wait for one of their connections. It is immutable.
type Service struct {
	// Name is what records and logs call it.
	Name string
	// Path is the path that clients ask for; empty for any.
	Path string
	// Group is the backends' pools and the queue.
	Group *pool.Group[*backend.Conn]
	// QueueTimeout bounds the wait for a connection.
	QueueTimeout time.Duration
	// HashBy is what a client's backend is chosen by, when the group is balanced so.
	HashBy HashBy
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
