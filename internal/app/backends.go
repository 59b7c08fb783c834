package app

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// backendPlan is what the settings of one backend mean once they have been checked.
type backendPlan struct {
	target   *handshake.Target
	settings pool.Settings
	mode     pool.Mode
	probe    *backend.Probe
}

// complaint notes a mistake in a setting, which is named.
type complaint = func(what, format string, args ...any)

// planBackends checks the backends.
func (s *Settings) planBackends(bad complaint) []backendPlan {
	if len(s.Backends) == 0 {
		bad("backend", "no backend is given; give at least one such as ws://127.0.0.1:9001")
	}
	var plans []backendPlan
	seen := make(map[string]string)
	weights := 0.0
	for _, text := range s.Backends {
		plan, err := s.parseBackend(text)
		if err != nil {
			bad("backend", "%v", err)
			continue
		}
		weights += plan.settings.Weight
		server := plan.target.URL
		if before, ok := seen[sameServer(server)]; ok && before != server {
			bad("backend", "%q is %q, listed twice; its cap would not hold", server, before)
		} else if ok {
			bad("backend", "%q is listed twice; its cap would not hold", server)
		}
		seen[sameServer(server)] = server
		plans = append(plans, plan)
	}
	if len(plans) > 0 && len(plans) == len(s.Backends) && weights == 0 {
		bad("backend", "the weights of all backends are 0, so that none would get a client; allowed is 0 for some")
	}
	if s.Probe != "" && len(plans) > 0 {
		if _, err := s.probe(plans[0].target); err != nil {
			bad("probe", "%v", err)
		}
	}
	return plans
}

// parseBackend checks a backend's text: its URL, and behind it, each after a comma, what differs from the settings for all:
// connections=N, warm=N, weight=X and state=enabled, draining or disabled.
func (s *Settings) parseBackend(text string) (plan backendPlan, err error) {
	address, own := cutOwnSettings(text)
	if unknown := unknownSetting(address); unknown != "" {
		return plan, fmt.Errorf("%q: there is no setting %q; allowed are %s (and a comma in a path is written as %%2C)",
			text, unknown, strings.Join(ownSettings, ", "))
	}
	if plan.target, err = handshake.ParseTarget(address); err != nil {
		return plan, err
	}
	plan.target.Protocol, plan.target.UserTimeout = s.Subprotocol, s.UserTimeout
	plan.settings = pool.Settings{Cap: s.Connections, Warm: s.Warm, Weight: 1}
	for i, setting := range own {
		name, value, _ := strings.Cut(setting, "=")
		if named(own[:i], name) {
			return plan, fmt.Errorf("%q: %s is given twice; allowed is once", text, name)
		}
		switch name {
		case "connections":
			plan.settings.Cap, err = strconv.Atoi(value)
		case "warm":
			plan.settings.Warm, err = strconv.Atoi(value)
		case "weight":
			plan.settings.Weight, err = parseWeight(value)
		case "state":
			plan.mode, err = pool.ParseMode(value)
		}
		if _, ok := err.(*strconv.NumError); ok {
			err = fmt.Errorf("%q is not a whole number", value)
		}
		if err != nil {
			return plan, fmt.Errorf("%q: %s: %w", text, name, err)
		}
	}
	if most := plan.settings.Cap; !named(own, "warm") && (plan.settings.Warm < 0 || plan.settings.Warm > most) {
		plan.settings.Warm = most // what is said for all is about the cap for all
	}
	if named(own, "connections") || named(own, "warm") { // otherwise its mistakes are named once for all
		checkSize(plan.settings.Cap, plan.settings.Warm, s.clientsWait(), func(what, format string, args ...any) {
			if err == nil {
				err = fmt.Errorf("%q: %s: %s", text, what, fmt.Sprintf(format, args...))
			}
		})
	}
	plan.probe, _ = s.probe(plan.target) // its mistakes are named once for all backends
	return plan, err
}

// ownSettings are the names that can follow a backend's URL.
var ownSettings = []string{"connections", "warm", "weight", "state"}

// cutOwnSettings separates a backend's URL, which may have commas itself, from its own settings.
func cutOwnSettings(text string) (address string, own []string) {
	for {
		i := strings.LastIndexByte(text, ',')
		if i < 0 || !isOwnSetting(text[i+1:]) {
			return text, own
		}
		text, own = text[:i], append(own, text[i+1:])
	}
}

func isOwnSetting(text string) bool {
	return slices.ContainsFunc(ownSettings, func(name string) bool { return strings.HasPrefix(text, name+"=") })
}

// unknownSetting returns the name of what stands behind a URL like a setting but is none, such as one that is misspelt; empty
// for nothing. Commas in a query mean nothing to us.
func unknownSetting(address string) string {
	i := strings.LastIndexByte(address, ',')
	if i < 0 || strings.Contains(address, "?") {
		return ""
	}
	name, _, ok := strings.Cut(address[i+1:], "=")
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}

func named(own []string, name string) bool {
	return slices.ContainsFunc(own, func(setting string) bool { return strings.HasPrefix(setting, name+"=") })
}

func parseWeight(text string) (float64, error) {
	const most = 1000
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(weight) || weight < 0 || weight > most {
		return 0, fmt.Errorf("%q is not a number between 0 and %d", text, most)
	}
	return weight, nil
}

// clientsWait tells whether clients wait for a connection.
func (s *Settings) clientsWait() bool { return s.Queue != 0 && s.QueueTimeout != 0 }

// maxConnections is the largest cap of a backend that is believed to be meant.
const maxConnections = 100_000

// checkSize checks a backend's cap and how many connections are kept warm.
func checkSize(connections, warm int, clientsWait bool, bad complaint) {
	switch {
	case connections < 1 || connections > maxConnections:
		bad("connections", "%d is not between 1 and %d", connections, maxConnections)
	case warm < 0 || warm > connections:
		bad("warm", "%d is not between 0 and the cap of %d connections", warm, connections)
	case warm == 0 && !clientsWait:
		bad("warm", "0 needs a --queue and a --queue-timeout, for clients to wait while their connection is dialed; allowed are 1 to %d without", connections)
	}
}

// probe returns how a backend is probed; nil for not at all.
func (s *Settings) probe(target *handshake.Target) (*backend.Probe, error) {
	probe := &backend.Probe{Interval: s.ProbeInterval, Timeout: s.ProbeTimeout, Fall: s.ProbeFall, Rise: s.ProbeRise}
	switch {
	case s.Probe == "":
		return nil, nil
	case s.Probe == "upgrade":
		return probe, nil
	}
	const allowed = `allowed are upgrade, a path such as /health, or a URL such as http://127.0.0.1:8000/health (http://:8000/health for that port of each backend)`
	u, err := url.Parse(s.Probe)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a URL; %s", s.Probe, allowed)
	case u.Scheme == "" && u.Host == "" && strings.HasPrefix(s.Probe, "/"):
		u.Scheme, u.Host = "http", target.Address()
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q has the scheme %q; %s", s.Probe, u.Scheme, allowed)
	case u.Hostname() == "" && u.Port() == "":
		return nil, fmt.Errorf("%q names no host; %s", s.Probe, allowed)
	case !isPort(u.Port()):
		return nil, fmt.Errorf("%q: a port is a number from 1 to 65535; %s", s.Probe, allowed)
	case u.Hostname() == "":
		host, _, _ := net.SplitHostPort(target.Address())
		u.Host = net.JoinHostPort(host, u.Port())
	}
	probe.URL = u
	return probe, nil
}

// isPort tells whether the text is a port to connect to, or nothing, for the scheme's own.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
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
