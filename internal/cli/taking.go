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

// takings returns what a change takes away from clients, in words: the authentication of services, tenants, keys, and servers that have
// sessions. stats is what the running proxy does; nil if that is not known.
func takings(now, to *config.Content, stats *api.Stats) (all []string) {
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
	for _, name := range now.Names(config.KindService) {
		before := now.Services[name]
		after, stays := to.Services[name]
		if stays && len(before.AuthMethods()) > 0 && len(after.AuthMethods()) == 0 {
			all = append(all, "the authentication of the service "+name)
		}
	}
	for _, name := range now.Names(config.KindBackend) {
		if n := sessions[name]; n > 0 && !to.Has(config.KindBackend, name) {
			all = append(all, fmt.Sprintf("the backend %s, which has %s", name, figures.Plural(n, "session")))
		}
	}
	for _, kind := range []config.Kind{config.KindTenant, config.KindKey} {
		for _, name := range now.Names(kind) {
			if !to.Has(kind, name) {
				all = append(all, fmt.Sprintf("the %s %s", kind, name))
			}
		}
	}
	return all
}

// confirmTaking asks before a change takes something away from clients, once for the same things; a dry run says what would be asked.
func (f *writeFlags) confirmTaking(cmd *cobra.Command, t *target, now, to *config.Content) error {
	taken := takings(now, to, t.running(cmd.Context(), io.Discard))
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
