package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// takings returns what a change takes away from clients or from the protection of servers, in words: authentication, tenants, keys and
// what restricts them, and servers that have sessions. stats is what the running proxies do; unknown says why that is not known for all of
// them, empty if it is.
func takings(now, to *config.Content, stats *api.Stats, unknown string) (all []string) {
	sessions := make(map[string]int)
	if stats != nil {
		for i := range stats.Backends {
			b := &stats.Backends[i]
			name := b.Name
			if b.DiscoveredFrom != "" {
				name = b.DiscoveredFrom
			}
			sessions[name] += b.Leased
		}
	}
	all = opened(now, to)
	for _, name := range now.Names(config.KindBackend) {
		switch n := sessions[name]; {
		case to.Has(config.KindBackend, name):
		case n > 0:
			all = append(all, fmt.Sprintf("the backend %s, which has %s", name, figures.Plural(n, "session")))
		case unknown != "" && now.Backends[name].State == enabling.state:
			all = append(all, fmt.Sprintf("the enabled backend %s (sessions are not known: %s)", name, unknown))
		}
	}
	for _, kind := range []config.Kind{config.KindTenant, config.KindKey} {
		for _, name := range now.Names(kind) {
			if !to.Has(kind, name) {
				all = append(all, fmt.Sprintf("the %s %s", kind, name))
			}
		}
	}
	for _, name := range now.Names(config.KindKey) {
		before := now.Keys[name]
		after, stays := to.Keys[name]
		if !stays {
			continue
		}
		if before.Hash != after.Hash {
			all = append(all, fmt.Sprintf("the present key %s (its hash changes, so the old key no longer works)", name))
		}
		if before.Tenant != "" && before.Tenant != after.Tenant {
			all = append(all, fmt.Sprintf("the restriction of the key %s to the tenant %s", name, before.Tenant))
		}
		if len(before.Services) > 0 && len(after.Services) == 0 {
			all = append(all, fmt.Sprintf("the restriction of the key %s to %s", name, "the services "+strings.Join(before.Services, " and ")))
		}
	}
	return all
}

// confirmTaking asks before a change takes something away from clients, once for the same things; a dry run says what would be asked.
func (f *writeFlags) confirmTaking(cmd *cobra.Command, t *target, now, to *config.Content) error {
	stats := t.running(cmd.Context(), io.Discard)
	taken := takings(now, to, stats, t.unknownSessions(stats))
	if f.takesKeys {
		taken = slices.DeleteFunc(taken, func(what string) bool { return strings.HasPrefix(what, "the key ") })
	}
	if len(taken) == 0 {
		return nil
	}
	question := "The change takes away " + strings.Join(taken, ", ")
	switch {
	case f.dryRun:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: it needs --yes.\n", question)
		return nil
	case question == f.confirmed:
		return nil
	}
	if err := confirm(cmd, f.yes, question); err != nil {
		return err
	}
	f.confirmed = question
	return nil
}

// unknownSessions says why the sessions of servers are not known, or not those of all proxies; empty if they are.
func (t *target) unknownSessions(stats *api.Stats) string {
	switch {
	case t.proxy == nil:
		return "no proxy was asked"
	case stats == nil:
		return "the proxy did not say"
	case stats.Fleet != nil && len(stats.Fleet.Missing) > 0:
		return stats.Fleet.Missing[0].String()
	}
	return ""
}
