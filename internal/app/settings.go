// Package app joins the parts to a running proxy, and takes it down in order.
package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Settings are the settings of a proxy, as flags give them. Begin with DefaultSettings.
type Settings struct {
	Listen      []string // addresses for clients, host:port
	Admin       string   // address of the admin API; empty for none
	Backends    []string // URLs of inference servers
	Path        string   // path that clients ask for; empty for any
	Profile     string   // name of the backends' profile
	Subprotocol string   // Sec-WebSocket-Protocol to ask the backends for; empty for none
	Origins     []string // values of Origin to accept; none for any
	Connections int      // cap of each backend
	Warm        int      // connections kept ready for each backend; negative for the cap
	Loops       int      // most event loops awake; 0 for one per processor

	MaxMessage int64 // largest message from a client in bytes; 0 for no limit
	MaxHead    int   // largest upgrade request in bytes

	HandshakeTimeout time.Duration // for a client's request to arrive
	DialTimeout      time.Duration // for a backend to accept a connection
	ResetTimeout     time.Duration // for a backend to answer what a session left behind
	CloseTimeout     time.Duration // for each side's part in closing
	IdleTimeout      time.Duration // without a frame; 0 for no limit
	MaxSession       time.Duration // of a whole session; 0 for no limit
	DrainTimeout     time.Duration // for sessions to finish at the end
}

// DefaultSettings returns the settings that hold when nothing else is said. There is no default for Backends.
func DefaultSettings() Settings {
	return Settings{
		Listen:           []string{"127.0.0.1:8080"},
		Profile:          profile.Names()[0],
		Connections:      100,
		Warm:             -1,
		MaxMessage:       16 << 20,
		MaxHead:          handshake.DefaultMaxHead,
		HandshakeTimeout: 10 * time.Second,
		DialTimeout:      5 * time.Second,
		ResetTimeout:     5 * time.Second,
		CloseTimeout:     5 * time.Second,
		DrainTimeout:     30 * time.Second,
	}
}

// plan is what settings mean once they have been checked.
type plan struct {
	settings Settings
	profile  *profile.Profile
	targets  []*handshake.Target
}

// maxConnections is the largest cap of a backend that is believed to be meant.
const maxConnections = 100_000

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
		if err := checkAddress(address); err != nil {
			bad("listen", "%v", err)
		} else if slices.Contains(s.Listen[:i], address) && !anyPort(address) {
			bad("listen", "%q is listed twice", address)
		}
	}
	if s.Admin != "" {
		if err := checkAddress(s.Admin); err != nil {
			bad("admin", "%v", err)
		} else if slices.Contains(s.Listen, s.Admin) && !anyPort(s.Admin) {
			bad("admin", "%q is an address of --listen; the admin API needs one of its own", s.Admin)
		}
	}
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		bad("path", "%q does not begin with /", s.Path)
	}
	var err error
	if p.profile, err = profile.Named(s.Profile); err != nil {
		bad("profile", "%v", err)
	}
	if s.Subprotocol != "" && !isToken(s.Subprotocol) {
		bad("subprotocol", "%q is not a token (letters, digits and !#$%%&'*+-.^_`|~)", s.Subprotocol)
	}
	p.targets = s.targets(bad)
	s.checkNumbers(bad)
	return p, errors.Join(errs...)
}

// targets checks the backends' URLs.
func (s *Settings) targets(bad func(flag, format string, args ...any)) []*handshake.Target {
	if len(s.Backends) == 0 {
		bad("backend", "no backend is given; give at least one such as ws://127.0.0.1:9001")
	}
	var targets []*handshake.Target
	seen := make(map[string]string)
	for _, text := range s.Backends {
		target, err := handshake.ParseTarget(text)
		if err != nil {
			bad("backend", "%v", err)
			continue
		}
		if before, ok := seen[sameServer(text)]; ok && before != text {
			bad("backend", "%q is %q, listed twice; its cap would not hold", text, before)
		} else if ok {
			bad("backend", "%q is listed twice; its cap would not hold", text)
		}
		seen[sameServer(text)] = text
		target.Protocol = s.Subprotocol
		targets = append(targets, target)
	}
	return targets
}

func (s *Settings) checkNumbers(bad func(flag, format string, args ...any)) {
	if s.Connections < 1 || s.Connections > maxConnections {
		bad("connections", "%d is not between 1 and %d", s.Connections, maxConnections)
	} else if s.Warm == 0 || s.Warm > s.Connections {
		bad("warm", "%d is not between 1 and the cap of %d connections", s.Warm, s.Connections)
	}
	if s.Loops < 0 || s.Loops > 1024 {
		bad("loops", "%d is not between 1 and 1024 (0 means one per processor)", s.Loops)
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
		{"dial-timeout", s.DialTimeout, time.Millisecond},
		{"reset-timeout", s.ResetTimeout, time.Millisecond},
		{"close-timeout", s.CloseTimeout, time.Millisecond},
		{"idle-timeout", s.IdleTimeout, 0},
		{"max-session", s.MaxSession, 0},
		{"drain-timeout", s.DrainTimeout, 0},
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

// checkAddress checks a host:port to listen on.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address; allowed is host:port such as 127.0.0.1:8080", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has the port %q; allowed are 0 to 65535", address, port)
	}
	return nil
}

// anyPort tells whether the address, which must have passed checkAddress, leaves the port to the system.
func anyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n == 0
}

// sameServer returns a form of a server's URL that is the same however it is spelt.
func sameServer(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port) + u.RequestURI()
}

// isToken tells whether text is a token as RFC 9110, section 5.6.2, has it.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
