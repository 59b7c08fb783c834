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
	{"path", "path that clients ask for; empty for any", func(s *Service) value.Value {
		return value.NewText(&s.Path, "a path such as /v1/stt", checkPath)
	}},
	{"host", "host that clients ask for; empty for any", func(s *Service) value.Value {
		return value.NewText(&s.Host, "a host name or address in lower case, without a port", checkHost)
	}},
	{"profile", "the backends' message protocol", func(s *Service) value.Value {
		return value.NewText(&s.Profile, "the name of a profile", checkAny) // whether there is one is for Validate
	}},
	{"subprotocol", "Sec-WebSocket-Protocol to ask the backends for, and to grant to clients that offer it; empty for the profile's", func(s *Service) value.Value {
		return value.NewText(&s.Subprotocol, "a token", checkSubprotocol)
	}},
	{"pass", "what of a client's handshake the backends are told, beside what the profile says; a client that says any of it gets a connection of its own", func(s *Service) value.Value {
		return value.NewList(&s.Pass, profile.PassWords, profile.CheckPassWord)
	}},
	{"allow-origin", "accept browsers from these values of Origin only; empty for any", func(s *Service) value.Value {
		return value.NewList(&s.AllowOrigin, "values of Origin such as https://example.org", checkOrigin)
	}},
	{"balance", "how a backend is chosen for a client", func(s *Service) value.Value {
		return value.NewChoice(&s.Balance, "balance", balances)
	}},
	{"hash-by", "with balance hash, what names a client", func(s *Service) value.Value {
		return value.NewText(&s.HashBy, "client (its address), header:NAME, query:NAME", checkHashBy)
	}},
	{"queue", "most clients that wait when all connections are in use; 0 refuses them at once", func(s *Service) value.Value {
		return value.NewCount(&s.Queue, 0, 1_000_000)
	}},
	{"queue-timeout", "for a connection to come free for a client that waits", func(s *Service) value.Value {
		return value.NewDuration(&s.QueueTimeout, 0)
	}},
	{"max-message", "largest message from a client; 0 for no limit", func(s *Service) value.Value { return value.NewSize(&s.MaxMessage, 0, math.MaxInt64) }},
	{"idle-timeout", "end sessions without a frame for so long; 0 for never", func(s *Service) value.Value {
		return value.NewDuration(&s.IdleTimeout, 0)
	}},
	{"max-session", "end sessions that last longer; 0 for never", func(s *Service) value.Value { return value.NewDuration(&s.MaxSession, 0) }},
	{"connection-max-age", "replace connections to backends that are older, once idle; 0 for never", func(s *Service) value.Value {
		return value.NewDuration(&s.ConnectionMaxAge, 0)
	}},
	{"connection-max-idle", "close connections beyond the warm ones that nobody used for so long", func(s *Service) value.Value {
		return value.NewDuration(&s.ConnectionMaxIdle, 0)
	}},
	{"connection-max-sessions", "replace connections that have served so many sessions; 0 for no limit", func(s *Service) value.Value {
		return value.NewCount(&s.ConnectionMaxSessions, 0, math.MaxInt32)
	}},
	{"dial-parallel", "connections dialed at once to each backend", func(s *Service) value.Value { return value.NewCount(&s.DialParallel, 1, 10_000) }},
	{"dial-timeout", "for a backend to accept a connection", func(s *Service) value.Value {
		return value.NewDuration(&s.DialTimeout, time.Millisecond)
	}},
	{"reset-timeout", "for a connection's reset after a session; 0 for as long as its profile allows", func(s *Service) value.Value {
		return value.NewDuration(&s.ResetTimeout, 0)
	}},
	{"close-timeout", "for each side's part in closing a connection", func(s *Service) value.Value {
		return value.NewDuration(&s.CloseTimeout, time.Millisecond)
	}},
	{"ping-interval", "between two pings on each connection to a backend; 0 for none", func(s *Service) value.Value {
		return value.NewDuration(&s.PingInterval, 0)
	}},
	{"ping-timeout", "for a backend to answer a ping, or to send anything else", func(s *Service) value.Value {
		return value.NewDuration(&s.PingTimeout, time.Millisecond)
	}},
	{"tcp-user-timeout", "for a backend's system to acknowledge what it was sent (Linux); 0 for the system's limit", func(s *Service) value.Value {
		return value.NewDuration(&s.TCPUserTimeout, 0)
	}},
	{"probe", "how each backend is asked whether it is well; empty for not at all", func(s *Service) value.Value {
		return value.NewText(&s.Probe, "upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health", checkProbe)
	}},
	{"probe-interval", "between two probes", func(s *Service) value.Value { return value.NewDuration(&s.ProbeInterval, 10*time.Millisecond) }},
	{"probe-timeout", "for a probe to succeed", func(s *Service) value.Value { return value.NewDuration(&s.ProbeTimeout, time.Millisecond) }},
	{"probe-fall", "failed probes in a row that take a backend out of service", func(s *Service) value.Value {
		return value.NewCount(&s.ProbeFall, 1, 1000)
	}},
	{"probe-rise", "successful probes in a row that bring it back", func(s *Service) value.Value { return value.NewCount(&s.ProbeRise, 1, 1000) }},
	{"circuit-failures", "failures in a row, of dialing or of sessions that the backend broke, that take it out of service for a while", func(s *Service) value.Value {
		return value.NewCount(&s.CircuitFailures, 1, 1_000_000)
	}},
	{"slow-start", "for a backend that was out of service to get its full share of clients back; 0 for at once", func(s *Service) value.Value {
		return value.NewDuration(&s.SlowStart, 0)
	}},
}

// maxConnections is the largest cap of a backend that is believed to be meant.
const maxConnections = 100_000

var backendFields = []field[Backend]{
	{"service", "name of the service that it belongs to; must be given", func(b *Backend) value.Value {
		return value.NewText(&b.Service, "the name of a service", checkAny) // whether there is one is for Validate
	}},
	{"url", "address of the inference server; must be given", func(b *Backend) value.Value {
		return value.NewText(&b.URL, "ws://host:port/path or wss://host:port/path", checkURL)
	}},
	{"connections", "cap: connections that the server ever sees at once", func(b *Backend) value.Value {
		return value.NewCount(&b.Connections, 1, maxConnections)
	}},
	{"warm", "connections kept ready beside those in use", func(b *Backend) value.Value { return warmValue{&b.Warm} }},
	{"weight", "how much of the clients it gets, relative to its cap and to the others; 0 for none", func(b *Backend) value.Value {
		return value.NewNumber(&b.Weight, 1000)
	}},
	{"state", "what an operator wants of it", func(b *Backend) value.Value { return value.NewChoice(&b.State, "state", states) }},
	{"labels", "for people and selectors", func(b *Backend) value.Value {
		return value.NewMap(&b.Labels, "names of letters, digits and ._/- with texts", checkLabel)
	}},
	{"tls-ca", "file with the certificates to trust; empty for the system's", func(b *Backend) value.Value {
		return value.NewText(&b.TLSCA, "a path", checkFile)
	}},
	{"tls-server-name", "name that the server's certificate must have; empty for the URL's host", func(b *Backend) value.Value {
		return value.NewText(&b.TLSServerName, "a host name in lower case", checkHost)
	}},
	{"tls-insecure-skip-verify", "trust any certificate: for tests", func(b *Backend) value.Value { return value.NewFlag(&b.TLSInsecureSkipVerify) }},
	{"tls-certificate", "file with the client certificate to show; empty for none", func(b *Backend) value.Value {
		return value.NewText(&b.TLSCertificate, "a path", checkFile)
	}},
	{"tls-key", "file with the client certificate's key", func(b *Backend) value.Value { return value.NewText(&b.TLSKey, "a path", checkFile) }},
	{"headers", "headers of the upgrade request; secrets as env:NAME or file:/path", func(b *Backend) value.Value {
		return value.NewMap(&b.Headers, "names of headers with texts, whose last word may be env:NAME or file:/path", checkHeader)
	}},
}

var profileFields = []field[Profile]{
	{"yaml", "the profile as docs/profiles.md describes it", func(p *Profile) value.Value {
		return yamlValue{&p.YAML}
	}},
}
