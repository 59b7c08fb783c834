package settings

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// FleetAuto is the value of [Settings.Fleet] for sharing servers' places wherever proxies share a database.
const FleetAuto = "auto"

// never is the text of [Never].
const never = "never"

// Never is the value of [Settings.GrantTimeout] for a proxy's places that stay its own until it is proven dead, or an operator says so.
const Never = value.NoLimit

// Automatic is the value of [Settings.GrantWithoutDatabase] for the whole caps if the database is away and the proxy has never seen another one in
// it, otherwise none.
const Automatic = -1

// The values of [Settings.GrantRefused]: from where a refused connection to a proxy's address proves that it has ended.
const (
	SameHost = "same-host" // the kernel says that no process listens there
	Anywhere = "anywhere"  // an operator says that no firewall rejects
)

const (
	// mostPlaces is the most places of one server that a setting may name.
	mostPlaces = 1 << 20
	// leastGrantTimeout is longer than a proxy needs to notice that the ledger is away, and than the ledger's lease time.
	leastGrantTimeout = 10 * time.Second

	proxyNameAllowed    = "letters, digits, '.', '_' and '-', at most 128"
	fleetAddressAllowed = "a URL such as https://10.0.0.5:9090"
	reconnectURLAllowed = "a URL such as wss://proxy-a.example.com"
)

var proxyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkProxyName(name string) error {
	if !proxyName.MatchString(name) {
		return value.Invalid("name", name, proxyNameAllowed)
	}
	return nil
}

// checkFleetAddress checks the URL of an admin API.
func checkFleetAddress(text string) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil:
		return fmt.Errorf("invalid address %q: put no user or password into it, and the token into fleet-token", secret.URL(text))
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", strings.Trim(u.Path, "/") != "", u.RawQuery != "", u.Fragment != "":
		return value.Invalid("address", secret.URL(text), fleetAddressAllowed)
	}
	return nil
}

// checkReconnectURL checks the URL of a proxy for clients. Its path comes before that of the client's request.
func checkReconnectURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return value.Invalid("URL", secret.URL(text), reconnectURLAllowed)
	}
	return nil
}

// Name returns the proxy's name: ProxyName, or the host's.
func (s *Settings) Name() string {
	if s.ProxyName != "" {
		return s.ProxyName
	}
	host, err := os.Hostname()
	if err != nil || !proxyName.MatchString(host) {
		return "proxy"
	}
	return host
}

// checkFleet checks what settings about the fleet need of each other.
func (l *loading) checkFleet() {
	if l.settings.Fleet != Off {
		return
	}
	for _, name := range []string{"grant-timeout", "grant-refused", "grant-floor", "grant-share", "grant-without-database", "reconnect-url"} {
		if l.sources[name] != "" {
			l.warn("%sno effect: fleet is off", l.heads[name])
		}
	}
}
