package chaos

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// configuration is the YAML file of a proxy. The goroutine that stages the run owns it, and then the operator's.
type configuration struct {
	file     string
	services []string           // entries, in their order
	backends map[string]backend // by name
	writes   int
}

// backend is one of its backends.
type backend struct {
	service, url, state string
	connections         int
}

// profiles are the profiles that are not built in.
const profiles = `  tagged: {from: funasr, unsafe: [doubt]}
  busy: {from: one-shot, busy: {json: {status: WAIT}}}
`

// add adds a service.
func (c *configuration) add(s *service) {
	c.services = append(c.services, fmt.Sprintf("  %s: {path: /%s, profile: %s, ping-interval: 5s, ping-timeout: 10s, close-timeout: 3s%s}\n",
		s.name, s.name, s.profile, s.more))
	for _, w := range s.healthy {
		c.backends[w.name] = backend{service: s.name, url: w.sim.URL(), connections: s.cap}
	}
	if h := s.hostile; h != nil {
		c.backends[h.name] = backend{service: s.name, url: h.url, connections: hostileCap}
	}
}

// text returns the correct content of the file.
func (c *configuration) text() []byte { return c.textOf(c.backends) }

// withoutBackends returns the content of the file with the services alone.
func (c *configuration) withoutBackends() []byte { return c.textOf(nil) }

func (c *configuration) textOf(backends map[string]backend) []byte {
	c.writes++
	var b strings.Builder
	fmt.Fprintf(&b, "# Written %d times.\nprofiles:\n%sservices:\n", c.writes, profiles)
	for _, s := range c.services {
		b.WriteString(s)
	}
	if len(backends) > 0 {
		b.WriteString("backends:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		o := backends[name]
		fmt.Fprintf(&b, "  %s:\n    service: %s\n    url: %s\n    connections: %d\n", name, o.service, o.url, o.connections)
		if o.state != "" {
			fmt.Fprintf(&b, "    state: %s\n", o.state)
		}
	}
	return []byte(b.String())
}

// write replaces the file in one step.
func (c *configuration) write(text []byte) error {
	if err := os.WriteFile(c.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(c.file+".new", c.file)
}
