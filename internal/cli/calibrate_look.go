package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/lab/calibrate"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/capacity"
)

// look looks for other clients of the server: in what the server publishes, and at the proxy whose configuration the command would change, with its fleet.
func (c *calibrateFlags) look(cmd *cobra.Command, server *calibrate.Server) error {
	reading, err := capacity.Read(cmd.Context(), server.Streams.Profile, server.Streams.Targets[0])
	published := ""
	switch {
	case errors.Is(err, capacity.ErrNowhere):
		published = "The profile does not say where servers publish how many sessions they have."
	case err != nil:
		published = fmt.Sprintf("What the server publishes of its sessions cannot be read: %v.", err)
	case reading.Used == capacity.Unknown:
		published = "The server does not publish how many sessions it has."
	case reading.Used > 0 && !c.shared:
		return fmt.Errorf("the server says that it has %s: calibrate it without clients, or use --shared if they may be served badly", figures.Plural(reading.Used, "session"))
	default:
		published = fmt.Sprintf("The server says that it has %s.", figures.Plural(reading.Used, "session"))
	}
	sessions, which := -1, ""
	var fleet *api.Fleet
	unseen := c.from.use(cmd, false, func(t *target) error { // without a proxy, nothing is looked at
		if t.proxy == nil {
			return nil
		}
		var why strings.Builder
		now := t.running(cmd.Context(), &why)
		if now == nil {
			return errors.New(strings.TrimSpace(why.String()))
		}
		sessions, which, fleet = sessionsOn(now, server.Streams.Targets[0].Server()), "proxy at "+t.name, now.Fleet
		if fleet != nil && fleet.Whole {
			which = "fleet of the " + which
		}
		return nil
	})
	if unseen != nil && !errors.Is(unseen, errNoTarget) && !c.shared {
		return fmt.Errorf("whether a proxy has sessions on this server cannot be seen (--shared calibrates it all the same): %w", unseen)
	}
	proxy := "No proxy was asked for the server's sessions (--admin)."
	switch {
	case sessions > 0 && !c.shared:
		return fmt.Errorf("the %s has %s on this server: drain the backend, or use --shared if they may be served badly", which, figures.Plural(sessions, "session"))
	case sessions >= 0:
		proxy = fmt.Sprintf("The %s has %s on this server.", which, figures.Plural(sessions, "session"))
	}
	server.Log("%s\n%s", published, proxy)
	if fleet != nil {
		sayMissing(cmd.ErrOrStderr(), fleet.Missing)
	}
	if reading.Used < 0 || err != nil {
		server.Log("Clients that reach the server in another way do not show.")
	}
	return nil
}

// sessionsOn returns how many sessions a proxy, or a whole fleet, has on the server of a URL.
func sessionsOn(now *api.Stats, server string) (sessions int) {
	address, _ := config.AddressOf(server)
	count := func(name, url string, leased int) {
		_, discovered, _ := strings.Cut(name, "@") // its URL has the name that led to it
		if own, _ := config.AddressOf(url); own == address || discovered == address {
			sessions += leased
		}
	}
	for i := range now.Backends {
		count(now.Backends[i].Name, now.Backends[i].URL, now.Backends[i].Leased)
	}
	for i := range now.Leaving {
		count(now.Leaving[i].Name, now.Leaving[i].URL, now.Leaving[i].Leased)
	}
	return sessions
}
