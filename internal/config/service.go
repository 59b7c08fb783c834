package config

import (
	"math"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Service is what clients request by path: a profile, a queue, limits, and settings for its backends. Begin with [DefaultService]. Its
// name is its key in [Content].
type Service struct {
	Path        string   // path that clients ask for; empty for any
	Host        string   // host that clients ask for, without a port; empty for any
	Profile     string   // name of the backends' message protocol: a built-in profile or one of [Content.Profiles]
	Subprotocol string   // Sec-WebSocket-Protocol to ask the backends for; empty for the profile's
	Pass        []string // what of a client's handshake the backends are told, see [profile.ParsePass]; none for what the profile says
	AllowOrigin []string // values of Origin to accept; none for any

	Balance      string        // how a backend is chosen for a client: see [BalanceParts]
	Queue        int           // most clients that wait for a connection; 0 refuses them at once
	QueueTimeout time.Duration // for a connection to come free

	MaxMessage  int64         // largest message from a client in bytes; 0 for no limit
	IdleTimeout time.Duration // ends sessions without a frame for so long; 0 for never
	AudioIdle   time.Duration // ends sessions without audio for so long; 0 for never
	MaxSession  time.Duration // ends sessions that last longer; 0 for never

	ConnectionMaxAge      time.Duration // of a connection to a backend; 0 for no limit
	ConnectionMaxIdle     time.Duration // of one beyond the warm ones
	ConnectionMaxSessions int           // that one connection serves; 0 for no limit
	DialTimeout           time.Duration // for a backend to accept a connection
	CloseTimeout          time.Duration // for each side's part in closing a connection

	PingInterval    time.Duration // between two pings on a connection to a backend; 0 for none
	PingTimeout     time.Duration // for its pong
	Keepalive       bool          // backends get the profile's keepalives during sessions whose clients are silent
	Probe           string        // how backends are probed: empty for not at all, upgrade, a path or a URL
	ProbeInterval   time.Duration // between two probes
	ProbeTimeout    time.Duration // for a probe to succeed
	ProbeFall       int           // failures in a row that take a backend out of service
	ProbeRise       int           // successes in a row that bring it back
	CircuitFailures int           // failures in a row that open a backend's circuit
	SlowStart       time.Duration // for a recovered backend to get its full share; 0 for at once

	Failover       string        // what becomes of a session whose server dies, hangs or is drained: see [Replays]
	ReplayWindow   time.Duration // of audio that no server has answered for good, kept of each session for the next server
	StallTimeout   time.Duration // after which a server that answers nothing has stalled; 0 for never, or StallAuto
	SessionAge     time.Duration // of a connection, at which a session moves to another one; 0 for no limit
	LagLimit       time.Duration // of a backend's results, over which it gets no new sessions; 0 for none
	Canary         string        // path of the WAV file that is played to backends; empty for none
	CanaryInterval time.Duration // between two plays of it to a backend
	CanaryTimeout  time.Duration // for the first result of it
	CanaryText     string        // that its results must contain, case ignored; empty for any
	CanaryModel    string        // that it asks for, where the profile's clients name one
	Rebalance      bool          // move sessions away from backends that have more than their share
	TellClients    bool          // send clients the profile's messages about their place in the queue and about moves
	Reconnect      time.Duration // that a session whose client's connection broke waits for it; 0 for not at all
	ReconnectEvict bool          // end the longest of these waits when clients wait in the queue
	Verified       string        // what 'wsbouncer profile verify' has found on the servers: see [Verified]; empty for not tried

	Auth              []string          // how clients are authenticated: see AuthMethods
	AuthFrom          []string          // where in a request credentials are: see CredentialSources
	EndUnauthorized   bool              // end sessions whose clients would be turned away now
	JWTKeys           string            // URL, or file:/path, of the key set that tokens are verified with
	JWTIssuer         string            // that tokens must have; empty for any
	JWTAudience       []string          // of which tokens must have one; none for any
	JWTAlgorithms     []string          // of tokens' signatures: see SignatureAlgorithms
	JWTLeeway         time.Duration     // by which clocks may differ
	JWTClaims         map[string]string // claims by what they say: tenant, subject, and names of limits
	AuthURL           string            // of the HTTP server that is asked about clients
	AuthTimeout       time.Duration     // for its answer
	AuthCache         time.Duration     // for which its answer holds; 0 for this request only
	AuthAskAnonymous  bool              // it is asked about clients without a credential, too
	AuthFailure       string            // what clients get while it does not answer: deny or allow
	CertificateTenant string            // part of a client's certificate that names its tenant
	SetHeader         map[string]string // headers that backends are sent, with placeholders for the client's identity
	SetQuery          map[string]string // query parameters that backends are sent, likewise

	// What all clients of the service may use together, and those of each address. MaxMessage, MaxSession and IdleTimeout limit each session.
	Limits       limits.Limits
	ClientLimits limits.Limits
}

// DefaultService returns a service with all defaults.
func DefaultService() Service { return withDefaults[Service]() }

// fields returns the fields of a service, in the order in which they are documented, written and compared. This is the only list of
// them: files, commands, flags, the admin API and databases follow it. CONTRIBUTING.md says how to add a field.
func (s *Service) fields() []field {
	return []field{
		{"path", "", "path that clients request; empty for any", value.NewText(&s.Path, "a path such as /v1/stt", checkPath)},
		{"host", "", "host that clients request; empty for any", value.NewText(
			&s.Host, "a host name or address in lower case, without a port", checkHost)},
		{"profile", profile.Names()[0], "message protocol of the backends; 'wsbouncer profile ls' lists the profiles", value.NewText(
			&s.Profile, "the name of a profile", checkAny)}, // whether there is one is for Validate
		{"subprotocol", "", "Sec-WebSocket-Protocol for backends, and clients that offer it; empty for the profile's", value.NewText(
			&s.Subprotocol, "a token", checkSubprotocol)},
		{"pass", "", "parts of a client's handshake to pass to the backend, besides the profile's; such a client gets its own connection", value.NewList(
			&s.Pass, profile.PassWords, profile.CheckPassWord)},
		{"allow-origin", "", "browser origins to accept; * for any; empty for any, or the service's host only with cookies or client certificates", value.NewList(
			&s.AllowOrigin, "values of Origin such as https://example.org", checkOrigin)},
		{"balance", balances[0], "how to choose a backend; hash: by the client's address, a header or a parameter", value.NewCanonical(
			&s.Balance, strings.Join(balances, ", "), readBalance)},
		{"queue", "1000", "maximum number of clients that wait for a connection", value.NewCount(
			&s.Queue, 0, 1_000_000)},
		{"queue-timeout", "10s", "maximum time that a client waits for a connection; 0 to refuse at once", value.NewDuration(&s.QueueTimeout, 0)},
		{"max-message", "16MiB", "maximum size of a client's message; 0 for no limit", value.NewSize(&s.MaxMessage, 0, math.MaxInt64)},
		{"idle-timeout", "0s", "end a session after this time without a message; 0 for never", value.NewDuration(&s.IdleTimeout, 0)},
		{"audio-idle", "0s", "end a session after this time without audio from its client; 0 for never", value.NewDuration(
			&s.AudioIdle, 0)},
		{"max-session", "0s", "maximum duration of a session; 0 for no limit", value.NewDuration(&s.MaxSession, 0)},
		{"connection-max-age", "1h", "replace a connection at this age, or up to a quarter earlier, when idle; 0 for never", value.NewDuration(
			&s.ConnectionMaxAge, 0)},
		{"connection-max-idle", "1m", "close a connection beyond the warm ones after this time unused; 0 for at once", value.NewDuration(
			&s.ConnectionMaxIdle, 0)},
		{"connection-max-sessions", "0", "replace a connection after this number of sessions; 0 for no limit", value.NewCount(
			&s.ConnectionMaxSessions, 0, math.MaxInt32)},
		{"dial-timeout", "5s", "maximum time to connect to a backend: TCP, TLS and upgrade", value.NewDuration(&s.DialTimeout, time.Millisecond)},
		{"close-timeout", "5s", "maximum time for each side to close a connection", value.NewDuration(&s.CloseTimeout, time.Millisecond)},
		{"ping-interval", "20s", "time between pings to a backend, or up to a quarter less; 0 for none", value.NewDuration(
			&s.PingInterval, 0)},
		{"ping-timeout", "10s", "maximum time for a backend to answer a ping, or send anything else", value.NewDuration(
			&s.PingTimeout, time.Millisecond)},
		{"keepalive", "false", "send the profile's keepalive message also while a session's client is silent", value.NewFlag(
			&s.Keepalive)},
		{"probe", "", "health check of each backend; empty for none", value.NewText(
			&s.Probe, "upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health", checkProbe)},
		{"probe-interval", "10s", "time between health checks, plus or minus a fifth", value.NewDuration(&s.ProbeInterval, 10*time.Millisecond)},
		{"probe-timeout", "2s", "maximum duration of a health check", value.NewDuration(&s.ProbeTimeout, time.Millisecond)},
		{"probe-fall", "3", "consecutive failures that take a backend out of service", value.NewCount(&s.ProbeFall, 1, 1000)},
		{"probe-rise", "2", "consecutive successes that return a backend to service", value.NewCount(&s.ProbeRise, 1, 1000)},
		{"circuit-failures", "5", "consecutive failed dials or broken sessions that open a backend's circuit breaker", value.NewCount(
			&s.CircuitFailures, 1, 1_000_000)},
		{"slow-start", "10s", "time until a recovered backend has its full share of clients; 0 for none", value.NewDuration(
			&s.SlowStart, 0)},
		{"failover", failovers[0], "what happens when a session's backend dies, stalls or is drained; replay: another continues it", value.NewChoice(
			&s.Failover, "kind of failover", failovers)},
		{"replay-window", "15s", "maximum unanswered audio with which a session can be moved", value.NewDurationWithin(
			&s.ReplayWindow, time.Second, 10*time.Minute)},
		{"session-age", "0s", "move a session before its connection is this old; 0 for the profile's max-age, otherwise at least 1m; needs failover: replay", value.NewDuration(
			&s.SessionAge, 0)},
		{"stall-timeout", "0s", "maximum time without a sign of work, as the profile defines it; 0 for no limit, otherwise at least 1s; auto: at most 30s", value.NewDurationOr(
			&s.StallTimeout, 0, 10*time.Minute, "auto", StallAuto)},
		{"lag-limit", "0s", "maximum lag of results in 95 % of a backend's sessions; above it, no new ones; 0 for no limit, otherwise at least 500ms", value.NewDurationWithin(
			&s.LagLimit, 0, 10*time.Minute)},
		{"canary", "", "WAV file to play to each backend as a test; empty for none", value.NewText(
			&s.Canary, "a path", checkFile)},
		{"canary-interval", "30s", "time between canaries for a backend, plus or minus a fifth", value.NewDuration(
			&s.CanaryInterval, time.Second)},
		{"canary-timeout", "10s", "maximum time for the canary's first result", value.NewDuration(&s.CanaryTimeout, time.Millisecond)},
		{"canary-text", "", "text that the canary's results must contain, ignoring case", value.NewText(
			&s.CanaryText, "a text on one line", checkCanaryText)},
		{"canary-model", "", "model that the canary requests, where clients name one", value.NewText(
			&s.CanaryModel, "the name of a model", checkCanaryModel)},
		{"rebalance", "false", "move sessions from backends more than 15 % above the mean share of their caps; needs failover: replay", value.NewFlag(
			&s.Rebalance)},
		{"tell-clients", "false", "send clients the profile's messages about the queue and moves", value.NewFlag(
			&s.TellClients)},
		{"reconnect", "0s", "time that a session waits for a client whose connection broke", value.NewDurationWithin(
			&s.Reconnect, 0, time.Hour)},
		{"reconnect-evict", "false", "when clients wait in the queue, end the session waiting longest for its client", value.NewFlag(
			&s.ReconnectEvict)},
		{verified, "", "result of 'wsbouncer profile verify --save' on the servers of this service; empty for none", value.NewText(
			&s.Verified, "a line such as 2026-11-22 vosk reset=holds move=holds", checkVerified)},
		{"auth", "", "how to authenticate clients, in this order", value.NewList(
			&s.Auth, strings.Join(authMethods, ", ")+", or none", checkAuthMethod)},
		{"auth-from", "", "where to look for credentials, in this order; empty for header", value.NewList(
			&s.AuthFrom, authSources, checkAuthSource)},
		{"end-unauthorized", "false", "end a session when its credential is revoked or expires", value.NewFlag(
			&s.EndUnauthorized)},
		{"jwt-keys", "", "key set (JWKS) to verify tokens with", value.NewText(
			&s.JWTKeys, "a URL such as https://id.example.org/jwks.json, or file:/path", checkKeySet)},
		{"jwt-issuer", "", "issuer that tokens must have; empty for any", value.NewText(&s.JWTIssuer, "a text", checkClaimText)},
		{"jwt-audience", "", "audiences, of which a token must have one; empty for any", value.NewList(&s.JWTAudience, "texts", checkClaimText)},
		{"jwt-algorithms", "", "signature algorithms that tokens may have; empty for all", value.NewList(
			&s.JWTAlgorithms, strings.Join(signatureAlgorithms, ", "), checkSignatureAlgorithm)},
		{"jwt-leeway", "1m", "allowed difference to the issuer's clock", value.NewDuration(&s.JWTLeeway, 0)},
		{"jwt-claims", "", "claims with the client's tenant (default: tenant), subject (default: sub) and limits", value.NewMap(
			&s.JWTClaims, strings.Join(claimTargets(), ", ")+", with names of claims", checkClaim)},
		{"auth-url", "", "URL of the HTTP server that decides about clients", value.NewText(
			&s.AuthURL, "a URL such as http://127.0.0.1:8000/auth", checkAuthURL)},
		{"auth-timeout", "2s", "maximum time for auth-url to answer", value.NewDuration(&s.AuthTimeout, time.Millisecond)},
		{"auth-cache", "0s", "time for which an answer of auth-url holds for equal requests", value.NewDuration(
			&s.AuthCache, 0)},
		{"auth-ask-anonymous", "false", "ask auth-url also about clients without a credential", value.NewFlag(
			&s.AuthAskAnonymous)},
		{"auth-failure", authFailures[0], "what clients get while auth-url does not answer", value.NewChoice(&s.AuthFailure, "answer", authFailures)},
		{"certificate-tenant", certificateParts[0], "part of a client's certificate that names its tenant", value.NewChoice(
			&s.CertificateTenant, "part of a certificate", certificateParts)},
		{"set-header", "", "headers with the client's identity to send to backends", value.NewMap(
			&s.SetHeader, "names of headers with texts, which may contain "+placeholdersInWords(), checkSetHeader)},
		{"set-query", "", "query parameters with the client's identity to send to backends", value.NewMap(
			&s.SetQuery, "names of parameters with texts, which may contain "+placeholdersInWords(), checkSetQuery)},
		{"session-limit", "", "maximum concurrent sessions of the service; 0 for no limit", s.Limits.Value(limits.Sessions)},
		{"session-rate", "", "maximum rate of new sessions of the service", s.Limits.Value(limits.SessionRate)},
		{"byte-rate", "", "maximum rate of bytes from all clients of the service", s.Limits.Value(limits.ByteRate)},
		{"client-session-limit", "", "maximum concurrent sessions of each client address; 0 for no limit", s.ClientLimits.Value(limits.Sessions)},
		{"client-session-rate", "", "maximum rate of new sessions of each client address", s.ClientLimits.Value(limits.SessionRate)},
		{"client-byte-rate", "", "maximum rate of bytes from each client address", s.ClientLimits.Value(limits.ByteRate)},
		{"client-message-rate", "", "maximum rate of messages from each client address", s.ClientLimits.Value(limits.MessageRate)},
	}
}
