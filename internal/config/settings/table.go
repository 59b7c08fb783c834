package settings

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/wire/acme"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// setting is one setting of the process.
type setting struct {
	name     string // of its flag and its key in the file
	standard string // default; empty for the zero value
	help     string // one line
	unset    string // the default of an empty value, in words; only if it may be empty
	live     bool   // whether it can change at run time
	// advanced: its default suits nearly every proxy, so that it comes last, in the help too.
	advanced bool
	value    value.Value              // reads, checks and writes the setting, of the settings whose row it is
	show     func(text string) string // hides secrets; nil if there are none
	token    func(*Tokens) *string    // where the secret is that it refers to; nil if it refers to none
	// deprecated says what to use instead of a setting that a later version removes, and which; empty for all others. Such a setting
	// works as before, with a warning. docs/reference/stability.md says for how long.
	deprecated string
}

// table has the rows of the default settings, which must not be set, and rows returns those of any settings; tests add one.
var (
	table = func() []setting { s := Defaults(); return rows(&s) }()
	rows  = (*Settings).rows
)

// Defaults returns the default settings.
func Defaults() (s Settings) {
	for _, row := range s.rows() {
		if row.standard == "" {
			continue
		}
		if err := row.value.Set(row.standard); err != nil {
			panic(fmt.Sprintf("the default of %s: %v", row.name, err))
		}
	}
	return s
}

// rows returns all settings, in the order in which they are shown.
func (s *Settings) rows() []setting {
	return []setting{
		{name: "listen", standard: "127.0.0.1:8080", help: "addresses to listen on for clients", value: value.NewList(
			&s.Listen, "host:port such as 127.0.0.1:8080", value.CheckAddress).Repeatable(value.AnyPort)},
		{name: "tls-listen", help: "addresses to listen on for TLS clients (wss); listen then has no default", unset: "none", value: value.NewList(
			&s.TLSListen, "host:port such as :8443", value.CheckAddress).Repeatable(value.AnyPort)},
		{name: "tls-cert", help: "certificates for tls-listen, with intermediate ones", unset: "none", live: true, value: value.NewList(
			&s.TLSCert, tlsFiles, checkTLSFile)},
		{name: "tls-key", help: "private keys of tls-cert, in the same order", unset: "none", live: true, value: value.NewList(
			&s.TLSKey, tlsFiles, checkTLSFile).Repeatable(func(string) bool { return true })},
		{name: "tls-client-ca", help: "CA certificates to verify client certificates with", unset: "none", live: true, value: value.NewList(
			&s.TLSClientCA, tlsFiles, checkTLSFile)},
		{name: "tls-client-auth", help: "whether clients must present a certificate", unset: "required with tls-client-ca, otherwise off", live: true, value: value.NewList(
			&s.TLSClientAuth, "off, optional or required, or ADDRESS=... for one listener", checkClientAuth)},
		{name: "tls-min-version", help: "lowest TLS version that clients may use", unset: "1.2", live: true, value: value.NewList(
			&s.TLSMinVersion, "1.2 or 1.3, or ADDRESS=... for one listener", checkTLSVersion)},
		{name: "tls-auto", help: "names to get ACME certificates for, accepting the authority's terms", unset: "none", value: value.NewList(
			&s.TLSAuto, acme.NameAllowed, acme.CheckName)},
		{name: "tls-auto-directory", help: "ACME directory of the authority", unset: "Let's Encrypt's", value: value.NewText(
			&s.TLSAutoDirectory, acme.DirectoryAllowed, orEmpty(acme.CheckDirectory))},
		{name: "tls-auto-ca", help: "PEM file with CA certificates for the ACME directory", unset: "the system's", value: value.NewText(
			&s.TLSAutoCA, "a path", orEmpty(checkPath))},
		{name: "admin", help: "address of the admin API, the dashboard and /metrics", unset: "none", value: value.NewText(
			&s.Admin, "host:port such as 127.0.0.1:9090", orEmpty(value.CheckAddress))},
		{name: "admin-socket", help: "Unix socket of the admin API, for commands on this machine", unset: "admin.sock in the state directory; none without a database", value: value.NewText(
			&s.AdminSocket, "a path, or "+Off+" for none", orEmpty(checkPath))},
		{name: "admin-token", help: "admin API token of operators", unset: "none", live: true, value: reference(
			&s.AdminToken, "admin-token"), token: func(t *Tokens) *string { return &t.Token }},
		{name: "admin-reader-token", help: "admin API token of readers", unset: "none", live: true, value: reference(
			&s.AdminReaderToken, "admin-reader-token"), token: func(t *Tokens) *string { return &t.ReaderToken }},
		{name: "admin-tls-cert", help: "PEM file with the certificate of the admin address", unset: "none", value: value.NewText(
			&s.AdminTLSCert, "a path", orEmpty(checkPath))},
		{name: "admin-tls-key", help: "PEM file with the private key of admin-tls-cert", unset: "none", value: value.NewText(
			&s.AdminTLSKey, "a path", orEmpty(checkPath))},
		{name: "dial-from", help: "local addresses to dial servers from, in turn, each with about 28,000 ports per server", unset: "the system chooses", value: value.NewList(
			&s.DialFrom, "IP addresses such as 10.0.0.5", checkSource)},
		{name: "secret-env", help: "environment variables that backends may use as secrets (env:NAME)", unset: defaultSecretEnv, value: value.NewList(
			&s.SecretEnv, "names of variables such as STT_TOKEN or "+defaultSecretEnv, checkVariable)},
		{name: "secret-directory", help: "directories of files that backends may use as secrets (file:/path)", unset: defaultSecretDirectory, value: value.NewList(
			&s.SecretDirectory, "absolute paths such as "+defaultSecretDirectory, checkDirectory)},
		{name: "database", help: "store of the configuration", unset: "wsbouncer.db in the state directory", show: stores.Redact, value: value.NewText(
			&s.Database, stores.Allowed, orEmpty(stores.Check))},
		{name: "state-directory", help: "directory for data that must survive a restart", unset: "systemd's StateDirectory=; otherwise /var/lib/wsbouncer for root and ~/.local/state/wsbouncer for others", value: value.NewText(
			&s.StateDirectory, "a path", orEmpty(checkPath))},
		{name: "fleet", standard: FleetAuto, help: "share servers' caps with proxies on the same PostgreSQL or SQLite database; off: use the whole caps", value: value.NewChoice(
			&s.Fleet, "use of the fleet", []string{FleetAuto, Off})},
		{name: "proxy-name", help: "name of this proxy for operators", unset: "the host's name", value: value.NewText(
			&s.ProxyName, proxyNameAllowed, orEmpty(checkProxyName))},
		{name: "fleet-address", help: "URL at which other proxies reach this one's admin API", unset: "from admin and this machine's address towards the database", value: value.NewText(
			&s.FleetAddress, fleetAddressAllowed, orEmpty(checkFleetAddress))},
		{name: "fleet-token", help: "token that proves this proxy's identity to other proxies; it is not sent", unset: "admin-token", live: true, value: reference(
			&s.FleetToken, "fleet-token"), token: func(t *Tokens) *string { return &t.PeerToken }},
		{name: "fleet-ca", help: "PEM file with CA certificates for other proxies' admin APIs", unset: "the system's", value: value.NewText(
			&s.FleetCA, "a path", orEmpty(checkPath))},
		{name: "fleet-server-name", help: "name that the certificates of other proxies' admin APIs must have", unset: "the host in each one's fleet-address", value: value.NewText(
			&s.FleetServerName, proxyNameAllowed, orEmpty(checkProxyName))},
		{name: "reconnect-url", help: "URL at which clients reach only this proxy, to return to their session (reconnect)", unset: "the other proxy forwards them", value: value.NewText(
			&s.ReconnectURL, reconnectURLAllowed, orEmpty(checkReconnectURL))},
		{name: "grant-timeout", standard: never, help: "time after which places of an unseen proxy that is not proven dead go to others", value: value.NewDurationOr(
			&s.GrantTimeout, leastGrantTimeout, value.MaxDuration, never, Never)},
		{name: "grant-refused", standard: SameHost, help: "where a refused connection proves that a proxy is dead; anywhere: on other hosts, too", value: value.NewChoice(
			&s.GrantRefused, "use of refused connections", []string{SameHost, Anywhere})},
		{name: "grant-floor", help: "places of each server to keep for this proxy, needed or not", value: value.NewCount(
			&s.GrantFloor, 0, mostPlaces)},
		{name: "grant-share", standard: "1", help: "weight of this proxy when places are short", value: value.NewNumberWithin(
			&s.GrantShare, 0.01, 100)},
		{name: "grant-without-database", standard: FleetAuto, help: "places of each server to use, even above its cap, when started without the database, or rights or tables in it; auto: all, if it is unreachable and no other proxy was ever seen, otherwise none", value: or[int]{
			value.NewCount(&s.GrantWithoutDatabase, 0, mostPlaces), &s.GrantWithoutDatabase, FleetAuto, Automatic,
		}},
		{name: "dns-server", help: "DNS server for backends with discover: dns", unset: "the system's", value: value.NewText(
			&s.DNSServer, "host:port such as 127.0.0.1:8600", orEmpty(checkServer))},
		{name: "max-header", standard: "16KiB", help: "maximum size of an upgrade request", live: true, value: value.NewSize(&s.MaxHeader, 512, 1<<20)},
		{name: "failed-auth-rate", standard: "20/m", help: "maximum rate of failed authentications of each client address", live: true, value: limits.RateValue(
			&s.FailedAuthRate)},
		{name: "total-session-limit", help: "maximum concurrent sessions of all services; 0 for no limit", live: true, value: value.NewCount(
			&s.TotalSessionLimit, 0, math.MaxInt32)},
		{name: "total-session-rate", help: "maximum rate of new sessions of all services", live: true, value: limits.RateValue(
			&s.TotalSessionRate)},
		{name: "total-byte-rate", help: "maximum rate of bytes from all clients", live: true, value: limits.ByteRateValue(
			&s.TotalByteRate)},
		{name: "replay-memory", help: "maximum memory of all sessions for failover and reconnect", live: true, unset: "1GiB, but at most an eighth of this machine's memory", value: or[int64]{
			value.NewSize(&s.ReplayMemory, 1<<20, 1<<40), &s.ReplayMemory, "", 0,
		}},
		{name: "handshake-timeout", standard: "10s", help: "maximum time for a client to send its upgrade request", live: true, value: value.NewDuration(
			&s.HandshakeTimeout, time.Millisecond)},
		{name: "max-handshakes", standard: "1024", help: "maximum incomplete upgrade requests; above it, old ones are dropped", live: true, value: value.NewCount(
			&s.MaxHandshakes, 1, 1<<20)},
		{name: "client-timeout", standard: "1m", help: "maximum time for a client to accept or acknowledge data; none: as long as TCP tries", live: true, value: value.NewLimit(
			&s.ClientTimeout, time.Second)},
		{name: "shutdown-delay", help: "time to accept clients after SIGTERM while not ready", live: true, value: value.NewDuration(
			&s.ShutdownDelay, 0)},
		{name: "drain-timeout", standard: "30s", help: "maximum time for sessions to finish once no clients are accepted", live: true, value: value.NewLimit(
			&s.DrainTimeout, 0)},
		{name: "upgrade-drain-timeout", standard: "none", help: "maximum time for sessions to finish after 'wsbouncer upgrade'", live: true, value: value.NewLimit(
			&s.UpgradeDrainTimeout, 0)},
		{name: "health-path", help: "path for health checks on the clients' listeners: 200 when ready, otherwise 503", unset: "none", value: value.NewText(
			&s.HealthPath, "a path such as /healthz", orEmpty(checkHealthPath))},
		{name: "ready-services", help: "services that must be able to serve for this proxy to be ready", unset: "any one", live: true, value: value.NewList(
			&s.ReadyServices, "names of services", config.CheckName)},
		{name: "trusted-proxies", help: "load balancers trusted to report clients' addresses", unset: "none", live: true, value: value.NewList(
			&s.TrustedProxies, origin.NetworksAllowed, checkNetwork)},
		{name: "forwarded-header", standard: origin.XForwardedFor, help: "header in which trusted proxies report a client's address", live: true, value: value.NewChoice(
			&s.ForwardedHeader, "header", origin.Headers)},
		{name: "proxy-protocol", standard: origin.ProxyOff, help: "whether connections from trusted proxies begin with a PROXY header", live: true, value: value.NewChoice(
			&s.ProxyProtocol, "use of PROXY protocol", origin.ProxyModes)},
		{name: "log-level", standard: "info", help: "lowest level to log", live: true, value: value.NewChoice(
			&s.LogLevel, "log level", LogLevels)},
		{name: "log-format", standard: "text", help: "format of the log on standard error", live: true, value: value.NewChoice(
			&s.LogFormat, "log format", []string{"text", "json"})},
		{name: "access-log", help: "file with a line for each ended session and refused client", unset: "none", live: true, value: value.NewText(
			&s.AccessLog, "a path", orEmpty(checkPath))},
		{name: "access-log-format", standard: "json", help: "format of the access log; combined: as of Apache and nginx", live: true, value: value.NewChoice(
			&s.AccessLogFormat, "format of the access log", []string{"json", "combined"})},
		{name: "otlp-endpoint", help: "OpenTelemetry collector for traces of sessions, over HTTP", unset: "OTEL_EXPORTER_OTLP_ENDPOINT, otherwise none", value: value.NewText(
			&s.OTLPEndpoint, allowedEndpoint, orEmpty(checkEndpoint))},
		{name: "trace-ratio", standard: "1", help: "share of sessions to trace, of clients without traceparent", live: true, value: value.NewNumber(
			&s.TraceRatio, 1)},
		{name: "loops", advanced: true, help: "maximum number of event loops awake simultaneously; 0 for one per available processor", value: value.NewCount(
			&s.Loops, 0, 1024)},
		{name: "io-uring", standard: "auto", advanced: true, help: "whether event loops send with io_uring; auto: where the kernel allows it", value: value.NewChoice(
			&s.IOURing, "way to send", []string{"auto", "on", "off"})},
		{name: "loop-wait", standard: "auto", advanced: true, help: "how busy event loops wait; raw: outside the Go scheduler; block: in system calls; auto: raw where it works", value: value.NewChoice(
			&s.LoopWait, "way to wait", []string{"auto", "raw", "block"})},
	}
}

// removed are the settings that earlier versions had, with what to use instead.
var removed = map[string]string{
	"close-timeout":      "use the field close-timeout of services; when the process ends, connections have 5s to close",
	"drain-spread":       "sessions are ended over the last third of drain-timeout, at most the last 10m",
	"tls-auto-email":     "Let's Encrypt sends no mail: the metric wsbouncer_tls_certificate_expiry_timestamp_seconds shows when certificates expire",
	"total-message-rate": "use total-byte-rate, or client-message-rate of services to limit each client address",
}

// Removed returns the settings that no longer exist, by name, with the error that says what to use instead.
func Removed() map[string]error {
	all := make(map[string]error, len(removed))
	for name, instead := range removed {
		all[name] = fmt.Errorf("the setting %s no longer exists: %s", name, instead)
	}
	return all
}

// Names returns the names of all settings.
func Names() []string {
	list := make([]string, len(table))
	for i := range table {
		list[i] = table[i].name
	}
	return list
}

// Known returns an error unless there is a setting of that name.
func Known(name string) error {
	if find(table, name) != nil {
		return nil
	}
	if gone := Removed()[name]; gone != nil {
		return gone
	}
	return spelling.Unknown("setting", name, Names())
}

// find returns the row of that name; nil if there is none.
func find(rows []setting, name string) *setting {
	if i := slices.IndexFunc(rows, func(s setting) bool { return s.name == name }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// IsAdvanced reports whether the setting of that name is an advanced one.
func IsAdvanced(name string) bool {
	s := find(table, name)
	return s != nil && s.advanced
}

// isList reports whether the setting has several values.
func (s *setting) isList() bool {
	_, ok := s.value.(value.List)
	return ok
}

// shown returns the setting's value without secrets, in words if it is empty.
func (s *setting) shown() string {
	if text := s.text(); text != "" {
		return text
	}
	return s.unset
}

// text returns the setting's value without secrets; empty if it is.
func (s *setting) text() string {
	text := s.value.Text()
	switch {
	case text == "":
		return ""
	case s.isList():
		return strings.Join(config.ListOf(text), ",")
	case s.show != nil:
		return s.show(text)
	}
	return text
}
