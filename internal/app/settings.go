// Package app joins the parts to a running proxy, and takes it down in order.
package app

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/value"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// Settings are the settings of a proxy, as flags give them. Begin with DefaultSettings.
type Settings struct {
	Listen   []string // addresses for clients, host:port
	Admin    string   // address of the admin API; empty for none
	Backends []string // inference servers: a URL each, with settings of its own behind it, see parseBackend
	Path     string   // path that clients ask for; empty for any
	Profile  string   // name of the backends' profile
	// ProfileFiles are YAML files with profiles beside the built-in ones.
	ProfileFiles []string
	Subprotocol  string   // Sec-WebSocket-Protocol to ask the backends for; empty for the profile's
	Origins      []string // values of Origin to accept; none for any
	Connections  int      // cap of each backend
	Warm         int      // connections kept ready for each backend; negative for the cap
	Balance      string   // how a backend is chosen for a client
	HashBy       string   // what it is chosen by with the balance hash: client, header:NAME or query:NAME
	Queue        int      // most clients that wait for a connection
	Loops        int      // most event loops awake; 0 for one per processor

	// Database is where services, backends and profiles come from; empty for flags-only operation, with Backends.
	Database       string
	StateDirectory string // where what must be found again after a restart is kept
	AdminSocket    string // path of the admin API's unix socket; empty for none
	AdminToken     string // that the admin API asks for: a secret; empty for none

	ConnectionMaxAge      time.Duration // of a connection to a backend; 0 for no limit
	ConnectionMaxIdle     time.Duration // of one beyond the warm ones
	ConnectionMaxSessions int           // that a connection serves; 0 for no limit
	PingInterval          time.Duration // between two pings to a backend; 0 for none
	PingTimeout           time.Duration // for its pong
	UserTimeout           time.Duration // for a backend to acknowledge what it was sent; 0 for the system's limit
	Probe                 string        // how backends are probed: empty for not at all, upgrade, a path or a URL
	ProbeInterval         time.Duration
	ProbeTimeout          time.Duration
	ProbeFall             int           // failures in a row that take a backend out of service
	ProbeRise             int           // successes in a row that bring it back
	CircuitFailures       int           // failures in a row that open a backend's circuit
	SlowStart             time.Duration // for a recovered backend to get its full share
	DialParallel          int           // connections dialed at once to each backend

	MaxMessage int64 // largest message from a client in bytes; 0 for no limit
	MaxHead    int   // largest upgrade request in bytes

	HandshakeTimeout time.Duration // for a client's request to arrive
	QueueTimeout     time.Duration // for a connection to come free
	DialTimeout      time.Duration // for a backend to accept a connection
	ResetTimeout     time.Duration // for a connection's reset, if less than its profile allows; 0 for that
	CloseTimeout     time.Duration // for each side's part in closing
	IdleTimeout      time.Duration // without a frame; 0 for no limit
	MaxSession       time.Duration // of a whole session; 0 for no limit
	DrainTimeout     time.Duration // for sessions to finish at the end
}

// DefaultSettings returns the settings that hold when nothing else is said. There is no default for Backends.
func DefaultSettings() Settings {
	return Settings{
		Listen:      []string{"127.0.0.1:8080"},
		Profile:     profile.Names()[0],
		Connections: 100,
		Warm:        -1,
		Balance:     pool.BalanceNames()[0],
		HashBy:      "client",
		Queue:       1000,

		ConnectionMaxAge:  time.Hour,
		ConnectionMaxIdle: time.Minute,
		PingInterval:      20 * time.Second,
		PingTimeout:       10 * time.Second,
		UserTimeout:       30 * time.Second,
		ProbeInterval:     10 * time.Second,
		ProbeTimeout:      2 * time.Second,
		ProbeFall:         3,
		ProbeRise:         2,
		CircuitFailures:   5,
		SlowStart:         10 * time.Second,
		DialParallel:      32,

		MaxMessage:       16 << 20,
		MaxHead:          handshake.DefaultMaxHead,
		HandshakeTimeout: 10 * time.Second,
		QueueTimeout:     10 * time.Second,
		DialTimeout:      5 * time.Second,
		CloseTimeout:     5 * time.Second,
		DrainTimeout:     30 * time.Second,
	}
}

// plan is what settings mean once they have been checked.
type plan struct {
	settings Settings
	profile  *profile.Profile
	balance  pool.Balance
	hashBy   session.HashBy
	backends []backendPlan
	order    map[string]int // of the backends, in flags-only operation
}

// Check returns everything that is wrong with the settings, joined into one error that names each flag, its value and
// what is allowed.
func (s *Settings) Check() error {
	_, err := s.plan()
	return err
}

func (s *Settings) plan() (*plan, error) {
	p := &plan{settings: *s}
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if len(s.Listen) == 0 {
		bad("listen", "no address to listen on; give one such as 127.0.0.1:8080")
	}
	for i, address := range s.Listen {
		if err := value.CheckAddress(address); err != nil {
			bad("listen", "%v", err)
		} else if slices.Contains(s.Listen[:i], address) && !value.AnyPort(address) {
			bad("listen", "%q is listed twice", address)
		}
	}
	if s.Admin != "" {
		if err := value.CheckAddress(s.Admin); err != nil {
			bad("admin", "%v", err)
		} else if slices.Contains(s.Listen, s.Admin) && !value.AnyPort(s.Admin) {
			bad("admin", "%q is an address of --listen; the admin API needs one of its own", s.Admin)
		}
	}
	if s.Database != "" {
		s.checkNumbers(bad) // of the service's there are only defaults
		return p, errors.Join(errs...)
	}
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		bad("path", "%q does not begin with /", s.Path)
	}
	var err error
	if p.profile, err = FindProfile(s.Profile, s.ProfileFiles); err != nil {
		bad("profile", "%v", err)
	}
	if s.Subprotocol != "" && !isToken(s.Subprotocol) {
		bad("subprotocol", "%q is not a token (letters, digits and !#$%%&'*+-.^_`|~)", s.Subprotocol)
	}
	if p.balance, err = pool.ParseBalance(s.Balance); err != nil {
		bad("balance", "%v", err)
	}
	if p.hashBy, err = parseHashBy(s.HashBy); err != nil {
		bad("hash-by", "%v", err)
	}
	if p.profile != nil && p.profile.Predial == profile.PredialNever && s.Queue == 0 {
		bad("queue", "0: with the profile %s connections are dialed for clients that wait; allowed is at least 1", s.Profile)
	}
	p.backends = s.planBackends(bad)
	for _, b := range p.backends {
		if b.target.Protocol == "" && p.profile != nil {
			b.target.Protocol = p.profile.Subprotocol
		}
	}
	s.checkNumbers(bad)
	return p, errors.Join(errs...)
}

// parseHashBy checks what a client's backend is chosen by.
func parseHashBy(text string) (by session.HashBy, err error) {
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case text == "client":
	case kind == "header" && isToken(name):
		by.Header = name
	case kind == "query" && name != "":
		by.Query = name
	default:
		err = fmt.Errorf("%q is not client, header:NAME or query:NAME", text)
	}
	return by, err
}

func (s *Settings) checkNumbers(bad func(flag, format string, args ...any)) {
	checkSize(s.Connections, s.warm(), s.clientsWait(), bad)
	for _, n := range []struct {
		flag        string
		value       int
		least, most int
	}{
		{"loops", s.Loops, 0, 1024}, // 0 for one per processor
		{"queue", s.Queue, 0, 1_000_000},
		{"connection-max-sessions", s.ConnectionMaxSessions, 0, math.MaxInt32},
		{"probe-fall", s.ProbeFall, 1, 1000},
		{"probe-rise", s.ProbeRise, 1, 1000},
		{"circuit-failures", s.CircuitFailures, 1, 1_000_000},
		{"dial-parallel", s.DialParallel, 1, 10_000},
	} {
		if n.value < n.least || n.value > n.most {
			bad(n.flag, "%d is not between %d and %d", n.value, n.least, n.most)
		}
	}
	if s.MaxMessage < 0 {
		bad("max-message", "%d is negative; allowed are sizes such as 16MiB, or 0 for no limit", s.MaxMessage)
	}
	if s.MaxHead < 512 || s.MaxHead > 1<<20 {
		bad("max-header", "%d bytes is not between 512B and 1MiB", s.MaxHead)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{
		{"handshake-timeout", s.HandshakeTimeout, time.Millisecond},
		{"queue-timeout", s.QueueTimeout, 0},
		{"dial-timeout", s.DialTimeout, time.Millisecond},
		{"reset-timeout", s.ResetTimeout, 0},
		{"close-timeout", s.CloseTimeout, time.Millisecond},
		{"idle-timeout", s.IdleTimeout, 0},
		{"max-session", s.MaxSession, 0},
		{"drain-timeout", s.DrainTimeout, 0},
		{"connection-max-age", s.ConnectionMaxAge, 0},
		{"connection-max-idle", s.ConnectionMaxIdle, 0},
		{"ping-interval", s.PingInterval, 0},
		{"ping-timeout", s.PingTimeout, time.Millisecond},
		{"tcp-user-timeout", s.UserTimeout, 0},
		{"probe-interval", s.ProbeInterval, 10 * time.Millisecond},
		{"probe-timeout", s.ProbeTimeout, time.Millisecond},
		{"slow-start", s.SlowStart, 0},
	} {
		const most = 30 * 24 * time.Hour
		if d.value < d.least || d.value > most {
			bad(d.flag, "%v is not between %v and %v", d.value, d.least, most)
		}
	}
}

// warm returns how many connections are kept ready.
func (s *Settings) warm() int {
	if s.Warm < 0 {
		return s.Connections
	}
	return s.Warm
}

// isToken tells whether text is a token as RFC 9110, section 5.6.2, has it.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
