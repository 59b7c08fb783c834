package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// This file has what commands say of backends with discover. The configuration has the backend; the running proxy has a backend
// for each server, BACKEND@ADDRESS:PORT.

// ofServer returns an error if a name is that of a server that was discovered for a backend of the configuration: it cannot be changed by
// itself. It says what can be done instead. Otherwise it returns nil.
func ofServer(content *config.Content, kind config.Kind, name string) error {
	backend, address, ok := strings.Cut(name, "@")
	b, known := content.Backends[backend]
	if kind != config.KindBackend || !ok || !known || !b.Discovers() {
		return nil
	}
	scheme, rest, _ := strings.Cut(b.URL, "://")
	_, path, _ := strings.Cut(rest, "/")
	return fmt.Errorf("%s was discovered for the backend %s, and has no fields of its own: change %s for all its servers, or add a backend "+
		"for this one, which takes it over with its sessions: wsbouncer backend add NAME %s://%s/%s --service %s --connections %d --state draining",
		name, backend, backend, scheme, address, secret.URL(path), b.Service, b.Cap())
}

// lookupText says how the lookup of a name goes.
func lookupText(d *api.Discovery, now time.Time) string {
	servers := figures.Plural(d.Servers, "server")
	switch {
	case d.Asked.IsZero():
		return "it is being looked up"
	case !d.Failing.IsZero():
		return fmt.Sprintf("%s; lookups fail for %s: %s", servers, figures.Since(d.Failing, now), d.Reason)
	}
	return fmt.Sprintf("%s, looked up %s ago", servers, figures.Since(d.Asked, now))
}

// serversOf says in a few words how many servers were discovered, and whether lookups still work.
func serversOf(d *api.Discovery) string {
	text := figures.Plural(d.Servers, "server")
	if !d.Failing.IsZero() {
		text += ", lookups fail"
	}
	return text
}

// nowForPrograms returns the state of a backend for JSON; nil if it is not known.
func nowForPrograms(now *api.Stats, name string) map[string]any {
	d := now.Lookup(name)
	if d == nil {
		return backendForPrograms(now.Backend(name))
	}
	servers := []map[string]any{}
	for _, b := range now.BackendsOf(name) {
		server := backendForPrograms(b)
		server["name"] = b.Name
		servers = append(servers, server)
	}
	return map[string]any{"lookup": d, "servers": servers}
}

// showNow prints the state of a backend, or of the servers that were discovered for it, if it is known.
func showNow(out io.Writer, now *api.Stats, name string) error {
	if d := now.Lookup(name); d != nil {
		fmt.Fprintf(out, "\n%s: %s\n", d.Host, lookupText(d, time.Now()))
		for _, text := range d.LeftOut {
			fmt.Fprintf(out, "not used: %s\n", text)
		}
		var cells [][]string
		for _, b := range now.BackendsOf(name) {
			cells = append(cells, []string{b.Name, strconv.Itoa(b.Idle), strconv.Itoa(b.Leased), b.Condition.Word, b.Condition.Why})
		}
		if len(cells) == 0 {
			return nil
		}
		fmt.Fprintln(out)
		return table(out, []string{"SERVER", "IDLE", "LEASED", "HEALTH", "REASON"}, cells)
	}
	b := now.Backend(name)
	if b == nil {
		return nil
	}
	fmt.Fprintln(out)
	return table(out, []string{"NOW", "VALUE"}, backendNow(b))
}
