package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// remarkTimeout is the maximum time to read the statistics for a remark; the change itself has been made by then.
const remarkTimeout = 2 * time.Second

// remark warns about effects of a change that its author may not expect. before is nil if the former content is not known; isMade is
// false for a dry run and for a change without effect.
func (t *target) remark(ctx context.Context, messages io.Writer, before, after *config.Content, isMade bool) {
	var without []string
	if before != nil {
		without = withoutBackend(before, after)
	}
	throughProxy := t.proxy != nil && t.Store == config.Store(t.proxy)
	if len(without) == 0 && !(isMade && throughProxy) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remarkTimeout)
	defer cancel()
	now := t.running(ctx, io.Discard)
	for _, service := range without {
		clients := "new clients wait in its queue until you enable one, or time out"
		if after.Services[service].Queue == 0 {
			clients = "new clients are refused"
		}
		fmt.Fprintf(messages, "Warning: the service %s has no enabled backend left: %s%s\n", service, clients, sessionsOf(before, now, service))
	}
	if !isMade || !throughProxy || now == nil {
		return
	}
	switch now.Configuration.Source {
	case app.SourceFlags:
		fmt.Fprintln(messages, "Note: this proxy is configured by its flags: a restart forgets the change")
	case stores.Memory, "sqlite:" + stores.Memory:
		fmt.Fprintln(messages, "Note: this proxy keeps its configuration in memory: a restart forgets the change")
	}
}

// withoutBackend returns the services that a change leaves without an enabled backend.
func withoutBackend(before, after *config.Content) (services []string) {
	for _, service := range after.Names(config.KindService) {
		if hasEnabledBackend(before, service) && !hasEnabledBackend(after, service) {
			services = append(services, service)
		}
	}
	return services
}

func hasEnabledBackend(content *config.Content, service string) bool {
	for _, b := range content.Backends {
		if b.Service == service && b.State == enabling.state {
			return true
		}
	}
	return false
}

// sessionsOf says how many sessions a service's backends have; empty if that is not known.
func sessionsOf(content *config.Content, now *api.Stats, service string) string {
	if !hasBackends(now) {
		return ""
	}
	sessions := 0
	for name, b := range content.Backends {
		if r := now.Backend(name); r != nil && b.Service == service {
			sessions += r.Leased
		}
	}
	switch sessions {
	case 0:
		return "; it has no sessions"
	case 1:
		return "; 1 session continues"
	}
	return fmt.Sprintf("; %d sessions continue", sessions)
}
