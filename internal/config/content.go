// Package config holds the desired state of the proxy: which services, backends and profiles there should be. A [Content]
// says so; a [Snapshot] is a content that was found valid, with a version, and never changes. [Diff] says in an operator's
// words what is different between two, and a [Store] keeps one where it can be changed while the proxy runs.
//
// This package does no I/O but for resolving secrets ([Resolve]), and knows nothing of pools or sessions: whoever runs the
// proxy loads a snapshot and makes it so. Names of fields are the names of the flags of `wsbouncer serve`.
package config

import (
	"maps"
	"time"
)

// Service is what clients ask for by path: a profile, a queue, limits, and how its backends are treated. Begin with
// [DefaultService]. Its name is its key in [Content].
type Service struct {
	Path        string   // path that clients ask for; empty for any
	Host        string   // host that clients ask for, without a port; empty for any
	Profile     string   // name of the backends' message protocol: a built-in profile or one of [Content.Profiles]
	Subprotocol string   // Sec-WebSocket-Protocol to ask the backends for; empty for the profile's
	Pass        []string // what of a client's handshake the backends are told, see [profile.ParsePass]; none for what the profile says
	AllowOrigin []string // values of Origin to accept; none for any

	Balance      string        // how a backend is chosen for a client
	HashBy       string        // what it is chosen by with the balance hash: client, header:NAME or query:NAME
	Queue        int           // most clients that wait for a connection; 0 refuses them at once
	QueueTimeout time.Duration // for a connection to come free

	MaxMessage  int64         // largest message from a client in bytes; 0 for no limit
	IdleTimeout time.Duration // ends sessions without a frame for so long; 0 for never
	MaxSession  time.Duration // ends sessions that last longer; 0 for never

	ConnectionMaxAge      time.Duration // of a connection to a backend; 0 for no limit
	ConnectionMaxIdle     time.Duration // of one beyond the warm ones
	ConnectionMaxSessions int           // that one connection serves; 0 for no limit
	DialParallel          int           // connections dialed at once to each backend
	DialTimeout           time.Duration // for a backend to accept a connection
	ResetTimeout          time.Duration // for a connection's reset after a session; 0 for as long as the profile allows
	CloseTimeout          time.Duration // for each side's part in closing a connection

	PingInterval    time.Duration // between two pings on a connection to a backend; 0 for none
	PingTimeout     time.Duration // for its pong
	TCPUserTimeout  time.Duration // for a backend's system to acknowledge what it was sent; 0 for the system's limit
	Probe           string        // how backends are probed: empty for not at all, upgrade, a path or a URL
	ProbeInterval   time.Duration // between two probes
	ProbeTimeout    time.Duration // for a probe to succeed
	ProbeFall       int           // failures in a row that take a backend out of service
	ProbeRise       int           // successes in a row that bring it back
	CircuitFailures int           // failures in a row that open a backend's circuit
	SlowStart       time.Duration // for a recovered backend to get its full share; 0 for at once
}

// Backend is one inference server. Begin with [DefaultBackend]. Its name is its key in [Content].
type Backend struct {
	Service     string  // name of the service that it belongs to
	URL         string  // ws:// or wss:// address
	Connections int     // cap: connections that the server ever sees at once
	Warm        int     // connections kept ready beside those in use; negative for the cap
	Weight      float64 // how much of the clients it gets, relative to its cap and to the others; 0 for none
	State       string  // enabled, draining or disabled

	Labels map[string]string // for people and selectors; they change nothing

	TLSCA                 string // file with the certificates to trust; empty for the system's
	TLSServerName         string // name that the server's certificate must have; empty for the URL's host
	TLSInsecureSkipVerify bool   // trust any certificate
	TLSCertificate        string // file with the client certificate to show; empty for none
	TLSKey                string // file with its key

	// Headers of the upgrade request. Secrets are references, see [Resolve].
	Headers map[string]string
}

// WarmCount returns how many connections are kept ready: Warm, or the cap.
func (b *Backend) WarmCount() int {
	if b.Warm < 0 {
		return b.Connections
	}
	return b.Warm
}

// Profile is a message protocol as a user describes it. Its name is its key in [Content].
type Profile struct {
	// YAML is the profile as it was written: what stands behind its name in a file of profiles.
	YAML string
}

// Content is what a configuration says: entities by name. It is plain data that may be built and changed freely by whoever
// owns it; only [NewSnapshot] finds out whether it makes sense.
type Content struct {
	Services map[string]Service
	Backends map[string]Backend
	Profiles map[string]Profile
}

// NewContent returns an empty content.
func NewContent() Content {
	return Content{
		Services: make(map[string]Service),
		Backends: make(map[string]Backend),
		Profiles: make(map[string]Profile),
	}
}

// Clone returns a copy that shares nothing that can change.
func (c *Content) Clone() Content {
	to := Content{Services: maps.Clone(c.Services), Backends: maps.Clone(c.Backends), Profiles: maps.Clone(c.Profiles)}
	if to.Services == nil {
		to.Services = make(map[string]Service)
	}
	if to.Backends == nil {
		to.Backends = make(map[string]Backend)
	}
	if to.Profiles == nil {
		to.Profiles = make(map[string]Profile)
	}
	for name, s := range to.Services {
		s.Pass, s.AllowOrigin = append([]string(nil), s.Pass...), append([]string(nil), s.AllowOrigin...)
		to.Services[name] = s
	}
	for name, b := range to.Backends {
		b.Labels, b.Headers = maps.Clone(b.Labels), maps.Clone(b.Headers)
		to.Backends[name] = b
	}
	return to
}
