package config

import (
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/value"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// field is a field of an entity of type E.
type field[E any] struct {
	name  string // as the flag
	help  string // what it is, one line
	value func(*E) value.Value
}

// The fields, in the order in which they are documented, written and compared. These tables are the one place that knows
// their names, ranges and forms.

var serviceFields = []field[Service]{
	{"path", "path that clients request; empty for any", func(s *Service) value.Value {
		return value.NewText(&s.Path, "a path such as /v1/stt", checkPath)
	}},
	{"host", "host that clients request; empty for any", func(s *Service) value.Value {
		return value.NewText(&s.Host, "a host name or address in lower case, without a port", checkHost)
	}},
	{"profile", "message protocol of the backends", func(s *Service) value.Value {
		return value.NewText(&s.Profile, "the name of a profile", checkAny) // whether there is one is for Validate
	}},
	{"subprotocol", "Sec-WebSocket-Protocol to request from the backends, and to grant to clients that offer it; empty for the profile's", func(s *Service) value.Value {
		return value.NewText(&s.Subprotocol, "a token", checkSubprotocol)
	}},
	{"pass", "parts of a client's handshake to pass to the backend, in addition to those that the profile passes; a client that sends any of them gets a connection of its own", func(s *Service) value.Value {
		return value.NewList(&s.Pass, profile.PassWords, profile.CheckPassWord)
	}},
	{"allow-origin", "accept browsers from these origins only; empty for any", func(s *Service) value.Value {
		return value.NewList(&s.AllowOrigin, "values of Origin such as https://example.org", checkOrigin)
	}},
	{"balance", "how to choose a backend for a client", func(s *Service) value.Value {
		return value.NewChoice(&s.Balance, "balance", balances)
	}},
	{"hash-by", "what identifies a client, with balance hash", func(s *Service) value.Value {
		return value.NewText(&s.HashBy, "client (its address), header:NAME, query:NAME", checkHashBy)
	}},
	{"queue", "maximum number of clients that wait when all connections are in use; 0 refuses them at once", func(s *Service) value.Value {
		return value.NewCount(&s.Queue, 0, 1_000_000)
	}},
	{"queue-timeout", "maximum time that a client waits for a connection", func(s *Service) value.Value {
		return value.NewDuration(&s.QueueTimeout, 0)
	}},
	{"max-message", "maximum size of a client's message; 0 for no limit", func(s *Service) value.Value { return value.NewSize(&s.MaxMessage, 0, math.MaxInt64) }},
	{"idle-timeout", "end a session after this time without a frame; 0 for never", func(s *Service) value.Value {
		return value.NewDuration(&s.IdleTimeout, 0)
	}},
	{"max-session", "maximum duration of a session; 0 for no limit", func(s *Service) value.Value { return value.NewDuration(&s.MaxSession, 0) }},
	{"connection-max-age", "replace a connection at this age or up to a quarter earlier, once it is idle; 0 for never", func(s *Service) value.Value {
		return value.NewDuration(&s.ConnectionMaxAge, 0)
	}},
	{"connection-max-idle", "close a connection beyond the warm ones after this time without a session", func(s *Service) value.Value {
		return value.NewDuration(&s.ConnectionMaxIdle, 0)
	}},
	{"connection-max-sessions", "replace a connection after this number of sessions; 0 for no limit", func(s *Service) value.Value {
		return value.NewCount(&s.ConnectionMaxSessions, 0, math.MaxInt32)
	}},
	{"dial-parallel", "maximum number of connections to dial at once to each backend", func(s *Service) value.Value { return value.NewCount(&s.DialParallel, 1, 10_000) }},
	{"dial-timeout", "maximum time to dial a backend: TCP, TLS and upgrade", func(s *Service) value.Value {
		return value.NewDuration(&s.DialTimeout, time.Millisecond)
	}},
	{"reset-timeout", "maximum time to reset a connection after a session; 0 for the profile's limit", func(s *Service) value.Value {
		return value.NewDuration(&s.ResetTimeout, 0)
	}},
	{"close-timeout", "maximum time for each side to close a connection", func(s *Service) value.Value {
		return value.NewDuration(&s.CloseTimeout, time.Millisecond)
	}},
	{"ping-interval", "time between two pings on each connection to a backend, or up to a quarter less; 0 for no pings", func(s *Service) value.Value {
		return value.NewDuration(&s.PingInterval, 0)
	}},
	{"ping-timeout", "maximum time for a backend to answer a ping or to send anything else", func(s *Service) value.Value {
		return value.NewDuration(&s.PingTimeout, time.Millisecond)
	}},
	{"tcp-user-timeout", "maximum time for a backend's kernel to acknowledge data (Linux); 0 for the system's limit", func(s *Service) value.Value {
		return value.NewDuration(&s.TCPUserTimeout, 0)
	}},
	{"probe", "active health check of each backend; empty for none", func(s *Service) value.Value {
		return value.NewText(&s.Probe, "upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health", checkProbe)
	}},
	{"probe-interval", "time between two health checks, plus or minus a fifth", func(s *Service) value.Value { return value.NewDuration(&s.ProbeInterval, 10*time.Millisecond) }},
	{"probe-timeout", "maximum duration of a health check", func(s *Service) value.Value { return value.NewDuration(&s.ProbeTimeout, time.Millisecond) }},
	{"probe-fall", "consecutive failed health checks that take a backend out of service", func(s *Service) value.Value {
		return value.NewCount(&s.ProbeFall, 1, 1000)
	}},
	{"probe-rise", "consecutive successful health checks that return a backend to service", func(s *Service) value.Value { return value.NewCount(&s.ProbeRise, 1, 1000) }},
	{"circuit-failures", "consecutive failures, of dials or of sessions that the backend broke, that open the circuit breaker", func(s *Service) value.Value {
		return value.NewCount(&s.CircuitFailures, 1, 1_000_000)
	}},
	{"slow-start", "time until a backend that returns to service has its full share of clients; 0 for at once", func(s *Service) value.Value {
		return value.NewDuration(&s.SlowStart, 0)
	}},
}

// maxConnections is the largest cap of a backend that is believed to be meant.
const maxConnections = 100_000

var backendFields = []field[Backend]{
	{"service", "service that the backend belongs to; required", func(b *Backend) value.Value {
		return value.NewText(&b.Service, "the name of a service", checkAny) // whether there is one is for Validate
	}},
	{"url", "URL of the inference server; required", func(b *Backend) value.Value {
		return value.NewText(&b.URL, "ws://host:port/path or wss://host:port/path", checkURL)
	}},
	{"connections", "connection cap: the most connections that the server ever sees at once", func(b *Backend) value.Value {
		return value.NewCount(&b.Connections, 1, maxConnections)
	}},
	{"warm", "connections to keep ready in addition to those in use, within the cap", func(b *Backend) value.Value { return warmValue{&b.Warm} }},
	{"weight", "share of the clients, relative to the backend's cap and to the other backends; 0 for none", func(b *Backend) value.Value {
		return value.NewNumber(&b.Weight, 1000)
	}},
	{"state", "desired state", func(b *Backend) value.Value { return value.NewChoice(&b.State, "state", states) }},
	{"labels", "labels for people and selectors", func(b *Backend) value.Value {
		return value.NewMap(&b.Labels, "names of letters, digits and ._/- with texts", checkLabel)
	}},
	{"tls-ca", "file with the CA certificates to trust; empty for the system's", func(b *Backend) value.Value {
		return value.NewText(&b.TLSCA, "a path", checkFile)
	}},
	{"tls-server-name", "name that the server's certificate must have; empty for the URL's host", func(b *Backend) value.Value {
		return value.NewText(&b.TLSServerName, "a host name in lower case", checkHost)
	}},
	{"tls-insecure-skip-verify", "accept any certificate; for tests only", func(b *Backend) value.Value { return value.NewFlag(&b.TLSInsecureSkipVerify) }},
	{"tls-certificate", "file with the client certificate; empty for none", func(b *Backend) value.Value {
		return value.NewText(&b.TLSCertificate, "a path", checkFile)
	}},
	{"tls-key", "file with the key of the client certificate", func(b *Backend) value.Value { return value.NewText(&b.TLSKey, "a path", checkFile) }},
	{"headers", "headers of the upgrade request; write secrets as env:NAME or file:/path", func(b *Backend) value.Value {
		return value.NewMap(&b.Headers, "names of headers with texts, whose last word may be env:NAME or file:/path", checkHeader)
	}},
}

var profileFields = []field[Profile]{
	{"yaml", "the profile, as docs/profiles.md describes it", func(p *Profile) value.Value {
		return yamlValue{&p.YAML}
	}},
}
