package config

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// HeaderNames returns the names of the headers that the backend sets itself, in canonical form.
func (b *Backend) HeaderNames() []string {
	names := make([]string, 0, len(b.Headers))
	for name := range b.Headers {
		names = append(names, textproto.CanonicalMIMEHeaderKey(name))
	}
	return names
}

// DialsAhead reports whether a profile lets connections to the backend be opened before clients arrive.
func (b *Backend) DialsAhead(p *profile.Profile) bool {
	_, query, _ := strings.Cut(b.URL, "?")
	return p.DialsAhead(b.HeaderNames(), query)
}

// checkProtocol refuses what services and backends cannot have with the profiles of the services.
func (c *Content) checkProtocol(problems *Problems) {
	own := make(map[string]*profile.Profile)
	if len(c.Profiles) > 0 {
		list, _ := profile.Parse("profiles", c.ProfilesYAML()) // checkProfiles reports what is wrong with them
		for _, p := range list {
			own[p.Name] = p
		}
	}
	waits := make(map[string]bool) // services with a backend whose connections are dialed for clients that wait
	named := func(service Service) *profile.Profile {
		if _, isOwn := c.Profiles[service.Profile]; isOwn {
			return own[service.Profile]
		}
		p, _ := profile.Named(service.Profile)
		return p
	}
	for _, name := range sortedKeys(c.Backends) {
		b := c.Backends[name]
		p := named(c.Services[b.Service])
		switch {
		case p == nil:
			continue
		case b.Auto() && !p.Capacity().Known():
			problems.add(KindBackend, name, "connections", "auto needs servers that publish their capacity, and the profile %s does not say where: use a number, or a profile of your own with from: %s and capacity: {...}", p.Name, p.Name)
		}
		waits[b.Service] = waits[b.Service] || !b.DialsAhead(p)
	}
	for _, name := range sortedKeys(c.Services) {
		s := c.Services[name]
		p := named(s)
		if p == nil {
			continue
		}
		if s.Queue == 0 && (waits[name] || p.Predial == profile.PredialNever) {
			problems.add(KindService, name, "queue", "invalid number \"0\": the profile %s dials connections for waiting clients, so use at least 1", p.Name)
		}
		if _, why := p.SessionKeepalive(); s.Keepalive && why != "" {
			problems.add(KindService, name, "keepalive", "the profile %s cannot keep sessions alive, since %s: set keepalive to false, or use another profile", p.Name, why)
		}
		if s.AudioIdle > 0 && !p.Failover().TellsAudio() {
			problems.add(KindService, name, "audio-idle", "the profile %s does not say what audio is: use 0s, or a profile of your own with failover: {audio: {messages: ...}}", p.Name)
		}
		var headers []string
		for _, header := range sortedKeys(s.SetHeader) {
			header = textproto.CanonicalMIMEHeaderKey(header)
			if slices.Contains(headers, header) {
				problems.add(KindService, name, "set-header", "%q is set twice: header names that differ only in upper and lower case are the same", header)
			}
			headers = append(headers, header)
		}
		if field, err := p.CheckSets(headers, slices.Collect(maps.Keys(s.SetQuery))); err != nil {
			problems.add(KindService, name, field, "%v", err)
		}
	}
}
