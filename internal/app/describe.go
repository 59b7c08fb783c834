package app

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
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
	p, err := s.plan()
	if err != nil {
		return err.Error()
	}
	row("profile", "%s: %s", p.profile.Name, p.profile.Summary)
	if p.profile.Reuse == profile.OneShot {
		row("reuse", "none: %s", p.profile.Reason)
	} else {
		row("reuse", "%s", p.profile.Reuse)
	}
	sessions := 0
	for _, b := range p.backends {
		row("backend", "%s, at most %d connections, %d kept warm, weight %g, %s",
			b.target.URL, b.settings.Cap, b.settings.Warm, b.settings.Weight, b.mode)
		if b.mode == pool.Enabled && b.settings.Weight > 0 {
			sessions += b.settings.Cap
		}
	}
	row("balance", "%s", p.balance)
	switch {
	case s.Queue == 0:
		row("queue", "none: clients for whom there is no connection are refused")
	default:
		row("queue", "at most %d clients, for %v each", s.Queue, s.QueueTimeout)
	}
	if protocol := p.backends[0].target.Protocol; protocol != "" {
		row("subprotocol", "%s", protocol)
	}
	row("sessions", "at most %d at once", sessions)
	_ = w.Flush()
	return b.String()
}
