// Package settings has the settings of the process: where it listens, its limits, its database, its log. (What it serves is the
// configuration's business: services, backends, profiles, tenants and keys, which change while it runs.)
//
// They come from a YAML file, from environment variables and from flags; later ones in this order win over earlier ones.
// [Sources.Load] reads all three strictly and reports all errors together, each with its place. Files, variables, flags, help,
// [Template] and docs/reference/settings.md all come from one table.
package settings

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
)

// Settings are the settings of the process. Begin with [Defaults].
type Settings struct {
	Listen    []string // addresses for clients, host:port
	TLSListen []string // addresses for clients that speak TLS, host:port
	// How listeners speak TLS with clients; see Secured. Each item may begin with the address of one listener and =.
	TLSCert       []string // files of certificates
	TLSKey        []string // files of their private keys, in the same order
	TLSClientCA   []string // files with the authorities of clients' certificates
	TLSClientAuth []string // off, optional or required; none for the default
	TLSMinVersion []string // 1.2 or 1.3; none for the default
	// Certificates that an authority issues, see package acme.
	TLSAuto          []string // names to get certificates for
	TLSAutoDirectory string   // URL of the authority's directory; empty for Let's Encrypt
	TLSAutoCA        string   // file with the authorities that vouch for the directory's server; empty for the system's

	Admin       string // address of the admin API, host:port; empty for none
	AdminSocket string // unix socket of the admin API; empty for the default, see Socket, and [Off] for none
	// AdminToken and AdminReaderToken refer to the tokens that the admin API asks for: env:NAME or file:/path; empty for none. They
	// never are the tokens.
	AdminToken, AdminReaderToken string
	// AdminTLSCert and AdminTLSKey are files in PEM form; empty for no TLS on the address of the admin API.
	AdminTLSCert, AdminTLSKey string

	// DialFrom are the local IP addresses from which servers are dialed; none for the system's choice.
	DialFrom []string

	// What the configuration may refer to as a secret: environment variables and directories; none for the default, see Secrets.
	SecretEnv, SecretDirectory []string

	Database       string // where the configuration is; empty for the default, see DatabaseInUse
	StateDirectory string // where the process keeps what it must find again; empty for the default, see Directory

	// How this proxy shares servers' places with other proxies; see package fleet and fleet.go.
	Fleet        string // auto, or [Off] to use the whole caps whatever other proxies do
	ProxyName    string // by which operators know it; empty for the host's name, see Name
	FleetAddress string // URL of the admin API as the other proxies reach it; empty to derive it from Admin
	// FleetToken refers to the token that this proxy proves to the others that it knows: env:NAME or file:/path; empty for that of AdminToken.
	FleetToken           string
	FleetCA              string        // file with the authorities of the other proxies' certificates; empty for the system's
	FleetServerName      string        // that the other proxies' certificates are for; empty for the host of each one's address
	ReconnectURL         string        // URL at which clients whose session is here reach this proxy and no other; empty to have them forwarded
	GrantTimeout         time.Duration // after which the places of a proxy that is not seen are given to others; [Never]
	GrantRefused         string        // whether an address that refuses connections proves its proxy dead: [SameHost] or [Anywhere]
	GrantFloor           int           // places of each server that are kept for this proxy
	GrantShare           float64       // this proxy's weight when places are short
	GrantWithoutDatabase int           // places of each server that may be used when the ledger has not been reached since the start; [Automatic]

	// DNSServer is the address of the DNS server that names of backends are looked up with, host:port; empty for the system's.
	DNSServer string

	MaxHeader      int64       // largest upgrade request in bytes
	FailedAuthRate limits.Rate // of failed authentications of each client address
	// What all clients may use together: see Total.
	TotalSessionLimit int
	TotalSessionRate  limits.Rate
	TotalByteRate     limits.Rate

	// ReplayMemory is how many bytes of what clients have sent may be kept for the next server, of all sessions together; 0 for the
	// default, which depends on the machine.
	ReplayMemory int64

	HandshakeTimeout time.Duration // for a client's upgrade request to arrive
	MaxHandshakes    int           // most clients whose TLS handshake or upgrade request is not complete
	ClientTimeout    time.Duration // for a client to accept or acknowledge something; [NoLimit] for as long as TCP tries

	// The end of the process, in this order; see package app.
	ShutdownDelay time.Duration // how long clients are still accepted although the process is no longer ready
	DrainTimeout  time.Duration // for sessions to finish, once no clients are accepted; [NoLimit] for as long as they last
	// UpgradeDrainTimeout is DrainTimeout for a process whose successor has taken over.
	UpgradeDrainTimeout time.Duration

	// HealthPath is a path of the clients' listeners that says whether the process is ready; empty for none.
	HealthPath string
	// ReadyServices are the services without which the process is not ready; none if any one that can serve is enough.
	ReadyServices []string

	TrustedProxies  []string // networks and addresses of load balancers, which are believed about where clients come from
	ForwardedHeader string   // one of origin.Headers: what of a load balancer's request says it
	ProxyProtocol   string   // one of origin.ProxyModes: whether load balancers' connections begin with a PROXY header

	LogLevel  string // debug, info, warn or error
	LogFormat string // text or json

	AccessLog       string // file with a line for each session that ended and each client that was refused; empty for none
	AccessLogFormat string // json or combined

	// OTLPEndpoint is the URL of the collector that gets traces; empty or [Off] for none.
	OTLPEndpoint string
	TraceRatio   float64 // share of sessions that are traced, of those whose clients do not decide it

	// Advanced.
	Loops    int    // most event loops awake; 0 for one per processor
	IOURing  string // auto, on or off: whether event loops send with io_uring
	LoopWait string // auto, raw or block: how event loops wait while they are busy
}

// NoLimit is the value of [Settings.DrainTimeout] for as long as sessions last, and of [Settings.ClientTimeout] for no limit but that of TCP.
const NoLimit = value.NoLimit

// Off is the value of [Settings.AdminSocket] for no socket, of [Settings.OTLPEndpoint] for no traces, and of [Settings.Fleet] for no
// fleet.
const Off = "off"

// Directory returns the state directory in use.
func (s *Settings) Directory() string {
	if s.StateDirectory != "" {
		return s.StateDirectory
	}
	return state.Directory()
}

// Total returns what all clients may use together.
func (s *Settings) Total() limits.Limits {
	return limits.Limits{Sessions: s.TotalSessionLimit, SessionRate: s.TotalSessionRate, ByteRate: s.TotalByteRate}
}

// DatabaseInUse returns the database in use, which is SQLite in the state directory if no other is given.
func (s *Settings) DatabaseInUse() string {
	if s.Database != "" {
		return s.Database
	}
	return state.Database(s.Directory())
}

// DatabaseShown returns the database in use without its password.
func (s *Settings) DatabaseShown() string { return stores.Redact(s.DatabaseInUse()) }

// InUse returns the settings with what depends on other settings, on this machine, and on whether there is a database filled in.
func (s *Settings) InUse(database bool) Settings {
	now := *s
	now.AdminSocket = s.Socket(database)
	if database {
		now.Database, now.StateDirectory = s.DatabaseInUse(), s.Directory()
	}
	return now
}

// Socket returns the path of the admin API's unix socket; empty for none. With a database the default is a socket in the state
// directory, so that commands on the same machine find the proxy.
func (s *Settings) Socket(database bool) string {
	switch {
	case s.AdminSocket == Off, s.AdminSocket == "" && !database:
		return ""
	case s.AdminSocket == "":
		return state.AdminSocket(s.Directory())
	}
	return s.AdminSocket
}

// Sources returns the local addresses from which servers are dialed. The settings must have passed Check.
func (s *Settings) Sources() []netip.Addr {
	addresses := make([]netip.Addr, 0, len(s.DialFrom))
	for _, text := range s.DialFrom {
		if a, err := dialfrom.Parse(text); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// Secrets reads the secrets that the configuration in the database refers to.
func (s *Settings) Secrets() *secret.Source {
	from := &secret.Source{Variables: s.SecretEnv, Directories: s.SecretDirectory}
	if len(from.Variables) == 0 {
		from.Variables = []string{defaultSecretEnv}
	}
	if len(from.Directories) == 0 {
		from.Directories = []string{defaultSecretDirectory}
	}
	return from
}

// TrustShown says in words which load balancers are trusted, and how they say where a client comes from.
func (s *Settings) TrustShown() string {
	return fmt.Sprintf("%s; forwarded header: %s; PROXY protocol: %s", strings.Join(s.TrustedProxies, ", "), s.ForwardedHeader, s.ProxyProtocol)
}
