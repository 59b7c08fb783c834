// Package route has the services that clients ask for by path, the routes to them, and the wait in their queues. All rooms of the session storey
// use it; app/services makes the services from the configuration.
package route

import (
	"net/netip"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Service is what a client asks for by path: a set of backends that speak the same protocol, and the queue of clients that wait
// for one of their connections. It is immutable: a change replaces it, and sessions keep the one that they began with.
type Service struct {
	// Name is what records and logs call it.
	Name string
	// Host is the host that clients must ask for, in lower case and without a port; empty for any.
	Host string
	// Path is the path that clients must ask for; empty for any.
	Path string
	// Group is the backends' pools and the queue.
	Group *pool.Group[*backend.Conn]
	// Profile is the profile of the servers' protocol.
	Profile *profile.Profile
	// Passing says what the backends get of a client's handshake; nil for what the profile says. If it passes the path, Path is a
	// prefix of clients' paths.
	Passing *profile.HandshakePolicy
	// Dropped logs what they do not get; nil for no log.
	Dropped *Dropped
	// Variants are the variants of connections, shared with the backends.
	Variants *backend.Variants
	// QueueTimeout bounds the wait for a connection.
	QueueTimeout time.Duration
	// HashBy says what chooses a client's backend if the group balances by hash.
	HashBy HashBy
	// Affinity remembers which servers have given ids to clients; nil if the profile knows no ids.
	Affinity *Affinity

	// Auth says how clients are authenticated; nil for not at all.
	Auth *auth.Policy
	// Origins are the accepted values of the Origin header, or "*" for all; none for any, see internal/session/admission/origins.go. Requests without the header do not come from browsers
	// and are always accepted.
	Origins []string
	// Cookies and Certificates say that clients are known by them, or that backends get them. Then pages of other origins may not use those of
	// their visitors, unless Origins lets them.
	Cookies, Certificates bool
	// MaxMessage is the largest message, in bytes, that a client may send; 0 for no limit.
	MaxMessage int64
	// IdleTimeout ends a session in which no data frame has passed either way for this long; 0 for never.
	IdleTimeout time.Duration
	// Keepalive has servers get the profile's keepalives during sessions whose clients are silent.
	Keepalive bool
	// AudioIdle ends a session without audio from its client for this long; 0 for never. The profile says what audio is.
	AudioIdle time.Duration
	// MaxDuration ends a session that has lasted this long; 0 for never.
	MaxDuration time.Duration
	// CloseTimeout bounds each side's part in closing a session.
	CloseTimeout time.Duration

	// Failover makes sessions continue on another server when theirs dies, stalls or is drained, if the profile can do that.
	Failover bool
	// ReplayWindow is how much audio, as a duration, is kept of a session for the next server.
	ReplayWindow time.Duration
	// SessionAge is the age of a connection before which a session moves to another one, if the profile's MaxAge is not lower; 0 for no limit. It
	// needs Failover.
	SessionAge time.Duration
	// MoveTimeout is how long a session with failover waits for the next server; at least QueueTimeout holds.
	MoveTimeout time.Duration
	// StallTimeout is how long a server may take to show that it works; 0 for as long as it likes. With StallLearned, it is the most: a session learns
	// how long its server usually takes.
	StallTimeout time.Duration
	StallLearned bool
	// LagLimit is the most that a server's results may be late before it gets no new sessions; 0 for no limit.
	LagLimit time.Duration
	// TellClients sends clients the profile's messages about their place in the queue and about moves.
	TellClients bool

	// Reconnect is how long a session whose client's connection broke waits for the client to come back; 0 for not at all.
	Reconnect time.Duration
	// HadReconnect says that Reconnect is set, or was since the process began: clients of sessions from then may still come back.
	HadReconnect bool
	// ReconnectEvict ends the session that has waited longest for its own client when clients wait in the queue. It needs Reconnect.
	ReconnectEvict bool

	// Rebalance moves sessions away from backends that have more than their share. It needs Failover, and Backends.
	Rebalance bool
	// Backends are those of the service, with Rebalance.
	Backends []*backend.Backend

	// Scopes are what limits the service's clients together, and those of each address; nil for nothing.
	Scopes *limits.ServiceScopes

	// Removed is closed when the service is removed, so that waiting clients are refused; nil for a service that stays.
	Removed <-chan struct{}
}

// HashBy is the part of a request that [pool.Hash] uses: a header, a query parameter, or the client's address if both are empty.
type HashBy struct {
	Header string
	Query  string
}

// Key returns the client's hash key. Requests without the part share one key.
func (h HashBy) Key(req *handshake.Request, address string) uint64 {
	switch {
	case h.Header != "":
		return pool.HashKey(req.Header.Get(h.Header))
	case h.Query != "":
		return pool.HashKey(req.URL.Query().Get(h.Query))
	}
	return pool.HashKey(address)
}

// TellsQueue reports whether the service tells waiting clients their place.
func (s *Service) TellsQueue() bool { return s.TellClients && s.Profile.Tell().Queues() }

// TellsState reports whether the service tells clients that it or their session is degraded.
func (s *Service) TellsState() bool { return s.TellClients && s.Profile.Tell().Degrades() }

// Visitor returns what the limits on a client of the service depend on.
func (s *Service) Visitor(from netip.Addr, who *identity.Identity) *limits.Visitor {
	v := &limits.Visitor{Service: s.Scopes, Address: from}
	if who != nil {
		v.Tenant = who.Tenant
		v.Holder = limits.Holder{Method: who.Method, Tenant: who.Tenant, Name: who.Key}
		if who.Key == "" {
			v.Holder.Name = who.Subject
		}
		if who.Limits != (limits.Limits{}) && who.Method != identity.MethodKeys { // those of keys are in the configuration, and may have changed
			v.Own = &who.Limits
		}
	}
	return v
}

// Now returns the present as package limits knows it.
func Now() limits.Instant { return limits.Instant(loop.Now()) }
