package session

import (
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
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
	// Profile is the profile of the servers' protocol.
	Profile *profile.Profile
	// Variants are the meanings of the variants of connections, shared with the backends.
	Variants *backend.Variants
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

// variant returns the name of the variant of connections that a request needs. The error is a refusal.
func (s *Service) variant(req *handshake.Request) (string, error) {
	if !s.Profile.Variants() {
		return "", nil
	}
	v, err := s.Profile.Variant(req.URL.RawQuery, func(name string) []string { return req.Header[name] })
	if err != nil {
		return "", &handshake.Refusal{Status: http.StatusBadRequest, Reason: err.Error()}
	}
	return s.Variants.Name(v), nil
}
