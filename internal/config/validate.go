package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// ProfileCheck checks profiles that users wrote: YAML with the one key profiles, as [Content.ProfilesYAML] makes it. The
// file name is for its error messages.
type ProfileCheck func(file string, yaml []byte) error

// Validate returns everything that is wrong with the content, as [Problems], or nil. check may be nil; then what is in the
// profiles that users wrote is taken as it is.
func (c *Content) Validate(check ProfileCheck) error { return c.problems(check).err() }

func (c *Content) problems(check ProfileCheck) (problems Problems) {
	for _, kind := range Kinds() {
		tables[kind].check(c, &problems)
	}
	c.checkProfiles(check, &problems)
	c.checkServices(&problems)
	c.checkBackends(&problems)
	c.checkProtocol(&problems)
	c.checkKeys(&problems)
	return problems
}

func (c *Content) checkProfiles(check ProfileCheck, problems *Problems) {
	builtIn := profile.Names()
	names := sortedKeys(c.Profiles)
	for _, name := range names {
		if slices.Contains(builtIn, name) {
			problems.add(KindProfile, name, "", "%q is a built-in profile: choose another name, and use from: %s to inherit from it", name, name)
		}
		if c.Profiles[name].YAML == "" {
			problems.add(KindProfile, name, "yaml", "the value is missing: use YAML such as from: %s", builtIn[0])
		}
	}
	broken := slices.ContainsFunc(names, func(name string) bool { return checkYAML(c.Profiles[name].YAML) != nil })
	if check == nil || len(names) == 0 || broken {
		return
	}
	err := check("profiles", c.ProfilesYAML())
	var list profile.Problems
	switch {
	case errors.As(err, &list):
		for _, p := range list {
			name, line := c.profileAt(p.Line)
			problems.add(KindProfile, name, "yaml", "line %d, column %d: %s", line, max(1, p.Column-len(indent)), p.Text)
		}
	case err != nil:
		*problems = append(*problems, Problem{Text: err.Error()})
	}
}

// CheckProfiles is the [ProfileCheck] of the proxy: package profile must understand them.
func CheckProfiles(file string, yaml []byte) error {
	_, err := profile.Parse(file, yaml)
	return err
}

// profileAt returns which profile, and which line of it, stands at a line of ProfilesYAML.
func (c *Content) profileAt(line int) (name string, within int) {
	begin := 2 // behind the key profiles
	for _, name := range sortedKeys(c.Profiles) {
		end := begin + 1 + strings.Count(c.Profiles[name].YAML, "\n")
		if line < end {
			return name, max(1, line-begin)
		}
		begin = end
	}
	return "", line
}

// indent stands before each line of a profile in ProfilesYAML.
const indent = "    "

// ProfilesYAML returns the profiles as one YAML document with the one key profiles, which maps their names to them; nil if
// there are none.
func (c *Content) ProfilesYAML() []byte {
	if len(c.Profiles) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("profiles:\n")
	for _, name := range sortedKeys(c.Profiles) {
		b.WriteString("  " + name + ":\n")
		for _, line := range strictyaml.Lines(strings.TrimRight(c.Profiles[name].YAML, "\n")) {
			if strictyaml.Content(line) != "" {
				b.WriteString(indent)
			}
			b.WriteString(line)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

func (c *Content) checkServices(problems *Problems) {
	known := append(profile.Names(), sortedKeys(c.Profiles)...)
	routes := make(map[string]string)
	for _, name := range sortedKeys(c.Services) {
		s := c.Services[name]
		if !slices.Contains(known, s.Profile) {
			problems.add(KindService, name, "profile", "%v", spelling.Unknown("profile", s.Profile, known))
		}
		if len(s.Pass) > 0 && (s.Queue == 0 || s.QueueTimeout == 0) {
			problems.add(KindService, name, "pass", "%s needs a queue and a queue-timeout, so that clients can wait while their own connection is dialed", strings.Join(s.Pass, ","))
		}
		if field := s.setsByClient(); field != "" && (s.Queue == 0 || s.QueueTimeout == 0) {
			problems.add(KindService, name, field, "placeholders need a queue and a queue-timeout, so that clients can wait while their own connection is dialed")
		}
		s.checkAuth(name, problems)
		s.checkFailover(name, problems)
		if s.ReconnectEvict && s.Reconnect == 0 {
			problems.add(KindService, name, "reconnect-evict", "no session waits for its client without reconnect: set reconnect to a time such as 30s, or reconnect-evict to false")
		}
		route := s.Host + " " + s.Path
		if other, ok := routes[route]; ok && s.Path == "" {
			problems.add(KindService, name, "path", "the service %s takes every path, too, since it has none: give one of them a path (--path) or another host", other)
		} else if ok {
			problems.add(KindService, name, "path", "the service %s has the path %q, too: choose another path or host", other, s.Path)
		}
		routes[route] = name
	}
}

func (c *Content) checkBackends(problems *Problems) {
	services := sortedKeys(c.Services)
	servers := make(map[string]string)
	counts := make(map[string]int)
	weights := make(map[string]float64)
	for _, name := range sortedKeys(c.Backends) {
		b := c.Backends[name]
		service, ok := c.Services[b.Service]
		switch {
		case b.Service == "":
			problems.add(KindBackend, name, "service", "the value is missing: use %s", spelling.OneOf(services))
		case !ok:
			problems.add(KindBackend, name, "service", "%v", spelling.Unknown("service", b.Service, services))
		default:
			counts[b.Service]++
			weights[b.Service] += b.Weight
		}
		if b.URL == "" {
			problems.add(KindBackend, name, "url", "the value is missing: use a URL such as ws://10.0.0.5:2700/path")
		} else if other, ok := servers[ServerOf(b.URL)]; ok {
			problems.add(KindBackend, name, "url", "the backend %s has the same server %q, and two backends for one server would exceed its cap", other, secret.URL(b.URL))
		} else {
			servers[ServerOf(b.URL)] = name
		}
		switch {
		case b.Warm > b.Cap() && b.Cap() > 0:
			problems.add(KindBackend, name, "warm", "invalid number \"%d\": use a whole number from 0 to the cap of %d connections", b.Warm, b.Cap())
		case b.Warm == 0 && b.Cap() > 0 && ok && (service.Queue == 0 || service.QueueTimeout == 0):
			problems.add(KindBackend, name, "warm", "0 needs a queue and a queue-timeout of the service %s, so that clients can wait while their connection is dialed: set both, or use 1 to %d", b.Service, b.Cap())
		}
		b.checkTLS(name, problems)
		b.checkDiscovery(name, problems)
	}
	for _, name := range services {
		if counts[name] > 0 && weights[name] == 0 {
			problems.add(KindService, name, "", "the weights of all its backends are 0, so no backend would get a client: set at least one above 0")
		}
	}
}

// checkTLS checks the settings that belong together.
func (b *Backend) checkTLS(name string, problems *Problems) {
	if strings.HasPrefix(strings.ToLower(b.URL), "ws:") {
		for _, f := range []struct {
			field string
			isSet bool
		}{
			{"tls-ca", b.TLSCA != ""},
			{"tls-server-name", b.TLSServerName != ""},
			{"tls-insecure-skip-verify", b.TLSInsecureSkipVerify},
			{"tls-certificate", b.TLSCertificate != ""},
			{"tls-key", b.TLSKey != ""},
		} {
			if f.isSet {
				problems.add(KindBackend, name, f.field, "only a wss URL can use it: remove it, or change the URL to wss")
			}
		}
		return
	}
	if (b.TLSCertificate == "") != (b.TLSKey == "") {
		field, other := "tls-key", "tls-certificate"
		if b.TLSCertificate == "" {
			field, other = other, field
		}
		problems.add(KindBackend, name, field, "the value is missing: set it together with %s", other)
	}
}

// ServerOf returns a form of a backend's URL that is the same for the same server, however it is spelt.
func ServerOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return addressOf(u) + u.RequestURI()
}

// AddressOf returns the host:port that a backend's URL is dialed at, and whether over TLS. Several servers may share it, with a path each.
func AddressOf(text string) (address string, secure bool) {
	u, err := url.Parse(text)
	if err != nil {
		return text, false
	}
	return addressOf(u), u.Scheme == "wss"
}

func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil { // fd00:0::5 is fd00::5
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(host, port)
}
