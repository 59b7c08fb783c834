package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// checkFleet says in words with whom a proxy with these settings would share servers' caps, and warns if it cannot share them.
func checkFleet(cmd *cobra.Command, l *settings.Loaded) string {
	warn := func(format string, args ...any) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning: fleet:", fmt.Sprintf(format, args...))
	}
	all := app.Settings{Settings: l.InUse(true)}
	ledger, why := all.Ledger()
	if ledger == nil {
		return "off: " + why
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
	defer cancel()
	others, err := app.CheckLedger(ctx, ledger, l.Name())
	switch {
	case errors.Is(err, fleet.ErrNoTables):
		warn("this proxy would get no places: %v; run `wsbouncer migrate`, or set fleet: off if no other proxy has these servers", err)
	case errors.Is(err, fleet.ErrNoRights):
		warn("this proxy would get no places: %v; give the user these rights, or set fleet: off if no other proxy has these servers", err)
	case errors.Is(err, fleet.ErrNetworkFile):
		warn("this proxy would get no places: %v; use a state directory and a database on a local disk, or PostgreSQL, or set fleet: off if no other proxy has these servers", err)
	case err != nil:
		warn("%v", err)
	}
	if err != nil {
		return "no places: the ledger cannot be used"
	}
	if _, isSQLite := stores.SQLite(all.Database); ledger.Local() && isSQLite {
		return "shares caps with other processes of this host by " + ledger.Shown
	} else if ledger.Local() {
		return "shares caps with no other proxy, but with the process that an upgrade replaces, by " + ledger.Shown
	}
	var names []string
	for i := range others {
		if others[i].Name == l.Name() {
			warn("%s, of version %s, has this proxy's name: give each a proxy-name of its own (unless it is this proxy, which moved to this host)", describeProxy(&others[i]), others[i].Version)
		}
		names = append(names, others[i].Name)
	}
	if len(names) == 0 {
		return "shares caps by the database, which knows no other proxy at present"
	}
	return "shares caps by the database with " + strings.Join(names, ", ")
}

// describeProxy names a proxy of the ledger.
func describeProxy(m *fleet.Member) string {
	if m.Address == "" {
		return fmt.Sprintf("a proxy with id %s", m.ID)
	}
	return fmt.Sprintf("the proxy at %s (id %s)", m.Address, m.ID)
}
