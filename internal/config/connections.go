package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// connectionsValue is a cap, or auto for what the server publishes, which is negative.
type connectionsValue struct{ p *int }

// autoConnections is how people say that the server publishes how many connections it takes.
const autoConnections = "auto"

// Allowed implements [value.Value].
func (v connectionsValue) Allowed() string { return fmt.Sprintf("1 to %d, or auto", maxConnections) }

// Text implements [value.Value].
func (v connectionsValue) Text() string {
	if *v.p < 0 {
		return autoConnections
	}
	return strconv.Itoa(*v.p)
}

// Set implements [value.Value].
func (v connectionsValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == autoConnections:
		n = -1
	case err != nil || n < 1 || n > maxConnections:
		return value.Invalid("number", text, fmt.Sprintf("a whole number from %s", v.Allowed()))
	}
	*v.p = n
	return nil
}

// checkAuto refuses to follow what a server publishes whose profile does not say where.
func (c *Content) checkAuto(problems *Problems) {
	var own []*profile.Profile // read when they are needed
	for _, name := range sortedKeys(c.Backends) {
		b := c.Backends[name]
		s, ok := c.Services[b.Service]
		if !b.Auto() || !ok {
			continue
		}
		p, _ := profile.Named(s.Profile)
		if _, isOwn := c.Profiles[s.Profile]; isOwn {
			if own == nil {
				own, _ = profile.Parse("profiles", c.ProfilesYAML()) // checkProfiles reports what is wrong with them
			}
			if i := slices.IndexFunc(own, func(p *profile.Profile) bool { return p.Name == s.Profile }); i >= 0 {
				p = own[i]
			}
		}
		if p != nil && !p.Capacity().Known() {
			problems.add(KindBackend, name, "connections", "auto needs servers that publish their capacity, and the profile %s does not say where: use a number, or a profile of your own with from: %s and capacity: {...}", s.Profile, s.Profile)
		}
	}
}
