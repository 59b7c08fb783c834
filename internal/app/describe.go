package app

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Describe says in words what a proxy with these settings would serve. The settings must have passed Check and have no database.
func (s *Settings) Describe() string {
	fixed, draft, err := s.draft()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	for _, address := range s.Listen {
		row("listen", "%s, path %s", address, cmp.Or(s.Path, "/ and every other path"))
	}
	row("admin", "%s", cmp.Or(s.Admin, "off"))
	if len(s.TrustedProxies) > 0 {
		row("trusted proxies", "%s", s.TrustShown())
	}
	if len(s.DialFrom) > 0 {
		row("dial from", "%s", strings.Join(s.DialFrom, ", "))
	}
	p, err := FindProfile(s.Profile, s.ProfileFiles)
	if err != nil {
		return err.Error()
	}
	row("profile", "%s: %s", p.Name, p.Summary)
	if p.Reuse == profile.OneShot {
		row("reuse", "none: %s", p.Reason)
	} else {
		row("reuse", "%s", p.Reuse)
	}
	handshakes, dialedAhead := draft.DescribeHandshakes()
	row("failover", "%s", draft.DescribeFailover()[FixedService])
	sessions, each := 0, false
	for _, name := range fixed.names {
		b := fixed.content.Backends[name]
		warm := b.WarmCount()
		if !dialedAhead[name] {
			warm = 0
		}
		row("backend", "%s, at most %d connections, %d kept warm, weight %g, %s%s", secret.URL(b.URL), b.Cap(), warm, b.Weight, b.State, PerServer(&b))
		each = each || b.Discovers()
		if b.State == config.DefaultBackend().State && b.Weight > 0 {
			sessions += b.Cap()
		}
	}
	row("balance", "%s", s.Balance)
	switch {
	case s.Queue == 0:
		row("queue", "none: clients are refused when no connection is idle")
	default:
		row("queue", "at most %d clients, for %v each", s.Queue, s.QueueTimeout)
	}
	if protocol := cmp.Or(s.Subprotocol, p.Subprotocol); protocol != "" {
		row("subprotocol", "%s", protocol)
	}
	row("handshake", "%s", handshakes[FixedService])
	if each {
		row("sessions", "at most %d at once, if each DNS name stands for one server", sessions)
	} else {
		row("sessions", "at most %d at once", sessions)
	}
	_ = w.Flush()
	return b.String()
}

// PerServer says behind the numbers of a backend that they are those of each discovered server; otherwise it is empty.
func PerServer(b *config.Backend) string {
	if !b.Discovers() {
		return ""
	}
	return ", for each discovered server"
}
