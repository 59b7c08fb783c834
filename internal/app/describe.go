package app

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Describe says in words what a proxy with these settings, which must have passed Check, would serve.
func (s *Settings) Describe() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	for _, address := range s.Listen {
		path := s.Path
		if path == "" {
			path = "/ and every other path"
		}
		row("listen", "%s, path %s", address, path)
	}
	admin := s.Admin
	if admin == "" {
		admin = "off"
	}
	row("admin", "%s", admin)
	if p, err := s.plan(); err == nil {
		row("profile", "%s: %s", p.profile.Name, p.profile.Summary)
	}
	for _, url := range s.Backends {
		row("backend", "%s, at most %d connections, %d kept warm", url, s.Connections, s.warm())
	}
	if s.Subprotocol != "" {
		row("subprotocol", "%s", s.Subprotocol)
	}
	row("sessions", "at most %d at once", s.Connections*len(s.Backends))
	_ = w.Flush()
	return b.String()
}
