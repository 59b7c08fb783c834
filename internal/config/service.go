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
		{"subprotocol", "", "Sec-WebSocket-Protocol to request from the backends, and to grant to clients that offer it; empty for the profile's", value.NewText(
			&s.Subprotocol, "a token", checkSubprotocol)},
		{"pass", "", "parts of a client's handshake to pass to the backend, in addition to those that the profile passes; a client that sends any of them gets a connection of its own", value.NewList(
			&s.Pass, profile.PassWords, profile.CheckPassWord)},
		{"allow-origin", "", "accept browsers from these origins only; * for any; empty for any, but with cookies or client certificates only for pages of the service's own host", value.NewList(
			&s.AllowOrigin, "values of Origin such as https://example.org", checkOrigin)},
		{"balance", balances[0], "how to choose a backend for a client; hash: the same one for the same address, header or query parameter", value.NewCanonical(
			&s.Balance, strings.Join(balances, ", "), readBalance)},
		{"queue", "1000", "maximum number of clients that wait when all connections are in use; 0 refuses them at once", value.NewCount(
			&s.Queue, 0, 1_000_000)},
		{"queue-timeout", "10s", "maximum time that a client waits for a connection", value.NewDuration(&s.QueueTimeout, 0)},
		{"max-message", "16MiB", "maximum size of a client's message; 0 for no limit", value.NewSize(&s.MaxMessage, 0, math.MaxInt64)},
		{"idle-timeout", "0s", "end a session after this time without a frame; 0 for never", value.NewDuration(&s.IdleTimeout, 0)},
		{"audio-idle", "0s", "end a session after this time without audio from its client, as the profile defines audio; 0 for never", value.NewDuration(
			&s.AudioIdle, 0)},
		{"max-session", "0s", "maximum duration of a session; 0 for no limit", value.NewDuration(&s.MaxSession, 0)},
		{"connection-max-age", "1h", "replace a connection at this age or up to a quarter earlier, once it is idle; 0 for never", value.NewDuration(
			&s.ConnectionMaxAge, 0)},
		{"connection-max-idle", "1m", "close a connection beyond the warm ones after this time without a session", value.NewDuration(
			&s.ConnectionMaxIdle, 0)},
		{"connection-max-sessions", "0", "replace a connection after this number of sessions; 0 for no limit", value.NewCount(
			&s.ConnectionMaxSessions, 0, math.MaxInt32)},
		{"dial-timeout", "5s", "maximum time to dial a backend: TCP, TLS and upgrade", value.NewDuration(&s.DialTimeout, time.Millisecond)},
		{"close-timeout", "5s", "maximum time for each side to close a connection", value.NewDuration(&s.CloseTimeout, time.Millisecond)},
		{"ping-interval", "20s", "time between two pings on each connection to a backend, or up to a quarter less; 0 for no pings", value.NewDuration(
			&s.PingInterval, 0)},
		{"ping-timeout", "10s", "maximum time for a backend to answer a ping or to send anything else", value.NewDuration(
			&s.PingTimeout, time.Millisecond)},
		{"keepalive", "false", "send a backend the profile's keepalive.send during sessions, too, when the client has been silent for keepalive.every", value.NewFlag(
			&s.Keepalive)},
		{"probe", "", "active health check of each backend; empty for none", value.NewText(
			&s.Probe, "upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health", checkProbe)},
		{"probe-interval", "10s", "time between two health checks, plus or minus a fifth", value.NewDuration(&s.ProbeInterval, 10*time.Millisecond)},
		{"probe-timeout", "2s", "maximum duration of a health check", value.NewDuration(&s.ProbeTimeout, time.Millisecond)},
		{"probe-fall", "3", "consecutive failed health checks that take a backend out of service", value.NewCount(&s.ProbeFall, 1, 1000)},
		{"probe-rise", "2", "consecutive successful health checks that return a backend to service", value.NewCount(&s.ProbeRise, 1, 1000)},
		{"circuit-failures", "5", "consecutive failures, of dials or of sessions that the backend broke, that open the circuit breaker", value.NewCount(
			&s.CircuitFailures, 1, 1_000_000)},
		{"slow-start", "10s", "time until a backend that returns to service has its full share of clients; 0 for at once", value.NewDuration(
			&s.SlowStart, 0)},
		{"failover", failovers[0], "what becomes of a session whose backend dies, stalls or is drained; replay: another backend continues it, and gets the audio that no result has answered for good", value.NewChoice(
			&s.Failover, "kind of failover", failovers)},
		{"replay-window", "15s", "maximum duration of audio to keep of a session for the next backend; a session with more can no longer be moved", value.NewDurationWithin(
			&s.ReplayWindow, time.Second, 10*time.Minute)},
		{"session-age", "0s", "maximum age of a session's connection: before it, the session moves to another connection, to the same backend or another; 0 for the profile's max-age, otherwise at least 1m; needs failover: replay", value.NewDuration(
			&s.SessionAge, 0)},
		{"stall-timeout", "0s", "maximum time that a backend may take to show that it works on a session, as the profile says; 0 for no limit, otherwise at least 1s; auto: 30s, or sooner by how regularly the backend has sent results in the session so far", value.NewDurationOr(
			&s.StallTimeout, 0, 10*time.Minute, "auto", StallAuto)},
		{"lag-limit", "0s", "maximum lag of results, for 95 % of a backend's sessions: over it, the backend gets no new sessions until the lag falls; 0 for no limit, otherwise at least 500ms", value.NewDurationWithin(
			&s.LagLimit, 0, 10*time.Minute)},
		{"canary", "", "WAV file to play to each backend now and then, on a connection of its own; empty for none", value.NewText(
			&s.Canary, "a path", checkFile)},
		{"canary-interval", "30s", "time between two plays of the canary to a backend, plus or minus a fifth", value.NewDuration(
			&s.CanaryInterval, time.Second)},
		{"canary-timeout", "10s", "maximum time for the first result of the canary", value.NewDuration(&s.CanaryTimeout, time.Millisecond)},
		{"canary-text", "", "text that the results of the canary must contain, ignoring case; empty for any result", value.NewText(
			&s.CanaryText, "a text on one line", checkCanaryText)},
		{"canary-model", "", "model that the canary asks for, where clients of the profile name one", value.NewText(
			&s.CanaryModel, "the name of a model", checkCanaryModel)},
		{"rebalance", "false", "move sessions, at answered points, away from backends with more than 15 % above the mean share of their caps; needs failover: replay", value.NewFlag(
			&s.Rebalance)},
		{"tell-clients", "false", "send clients the profile's messages about their place in the queue and about moves; clients must know them", value.NewFlag(
			&s.TellClients)},
		{"reconnect", "0s", "time for which a session whose client's connection broke waits for the client to come back; 0 for not at all", value.NewDurationWithin(
			&s.Reconnect, 0, time.Hour)},
		{"reconnect-evict", "false", "when clients wait in the queue, end the session that has waited longest for its own client; needs reconnect", value.NewFlag(
			&s.ReconnectEvict)},
		{verified, "", "result of 'wsbouncer profile verify --save' on the servers of this service; empty for none", value.NewText(
			&s.Verified, "a line such as 2026-11-22 vosk reset=holds move=holds", checkVerified)},
		{"auth", "", "how clients are authenticated, in this order; empty or none: not at all", value.NewList(
			&s.Auth, "the words "+strings.Join(authMethods, ", ")+", or none", checkAuthMethod)},
		{"auth-from", "", "where clients' credentials are, in this order; empty: header, which is Authorization with Bearer or Token", value.NewList(
			&s.AuthFrom, authSources, checkAuthSource)},
		{"end-unauthorized", "false", "end a session when its key is revoked, its key or token expires, its token's key leaves the key set, or auth-url turns its client away", value.NewFlag(
			&s.EndUnauthorized)},
		{"jwt-keys", "", "key set (JWKS) that tokens are verified with", value.NewText(
			&s.JWTKeys, "a URL such as https://id.example.org/jwks.json, or file:/path", checkKeySet)},
		{"jwt-issuer", "", "issuer that tokens must have; empty for any", value.NewText(&s.JWTIssuer, "a text", checkClaimText)},
		{"jwt-audience", "", "audiences, one of which tokens must have; empty for any", value.NewList(&s.JWTAudience, "texts", checkClaimText)},
		{"jwt-algorithms", "", "algorithms of tokens' signatures; empty for all of these", value.NewList(
			&s.JWTAlgorithms, "the words "+strings.Join(signatureAlgorithms, ", "), checkSignatureAlgorithm)},
		{"jwt-leeway", "1m", "time by which the clocks of this machine and of the issuer may differ", value.NewDuration(&s.JWTLeeway, 0)},
		{"jwt-claims", "", "claims that say something about the client; if none is named for them, tenant is the claim tenant, and subject the claim sub", value.NewMap(
			&s.JWTClaims, "the words "+strings.Join(claimTargets(), ", ")+" with names of claims", checkClaim)},
		{"auth-url", "", "URL of the HTTP server that decides about clients", value.NewText(
			&s.AuthURL, "a URL such as http://127.0.0.1:8000/auth", checkAuthURL)},
		{"auth-timeout", "2s", "maximum time for its answer", value.NewDuration(&s.AuthTimeout, time.Millisecond)},
		{"auth-cache", "0s", "time for which its answer holds for the same request: credential, query, cookies and all other fields; 0 asks it for each client", value.NewDuration(
			&s.AuthCache, 0)},
		{"auth-ask-anonymous", "false", "ask it about clients without a credential, too, instead of turning them away with 401", value.NewFlag(
			&s.AuthAskAnonymous)},
		{"auth-failure", authFailures[0], "what clients get while it does not answer", value.NewChoice(&s.AuthFailure, "answer", authFailures)},
		{"certificate-tenant", certificateParts[0], "part of a client's certificate that names its tenant", value.NewChoice(
			&s.CertificateTenant, "part of a certificate", certificateParts)},
		{"set-header", "", "headers of the upgrade request to the backends, with placeholders for the client's identity; a client cannot send them", value.NewMap(
			&s.SetHeader, "names of headers with texts, in which "+placeholdersInWords()+" may stand", checkSetHeader)},
		{"set-query", "", "query parameters of the request to the backends, with placeholders for the client's identity; a client cannot send them", value.NewMap(
			&s.SetQuery, "names of parameters with texts, in which "+placeholdersInWords()+" may stand", checkSetQuery)},
		{"session-limit", "", "maximum number of sessions of the service at once; 0 for no limit", s.Limits.Value(limits.Sessions)},
		{"session-rate", "", "maximum rate of new sessions of the service; 0 for no limit", s.Limits.Value(limits.SessionRate)},
		{"byte-rate", "", "maximum rate of bytes that the clients of the service send; 0 for no limit", s.Limits.Value(limits.ByteRate)},
		{"client-session-limit", "", "maximum number of sessions of each client address at once; 0 for no limit", s.ClientLimits.Value(limits.Sessions)},
		{"client-session-rate", "", "maximum rate of new sessions of each client address; 0 for no limit", s.ClientLimits.Value(limits.SessionRate)},
		{"client-byte-rate", "", "maximum rate of bytes that the clients of each address send; 0 for no limit", s.ClientLimits.Value(limits.ByteRate)},
		{"client-message-rate", "", "maximum rate of messages that the clients of each address send; 0 for no limit", s.ClientLimits.Value(limits.MessageRate)},
	}
}
