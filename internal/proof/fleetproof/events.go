//go:build linux

package fleetproof

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// kind is a kind of events.
type kind struct {
	name string
	// limit is how long it may take, from the time that happen returns, until all places of all servers are in use.
	limit time.Duration
	// happen has one happen. It returns since when all places can be used, or the zero time if it has waited for that itself.
	happen func(r *proof, ctx context.Context) (time.Time, error)
	// possible reports whether it can happen; nil for always.
	possible func(r *proof) bool
}

const (
	// killedLimit is after how long the places of a proxy that was killed are others'.
	killedLimit = 5 * time.Second
	// moveLimit is how long places take to move to where clients wait.
	moveLimit = 2 * time.Second
	// epochLimit is how long it takes until places move after the database was restarted or failed over: the lease time, the beats in which
	// all proxies say what they hold, and the time that a proxy takes to connect again.
	epochLimit = fleet.Lease + 5*time.Second
	// sessionLimit is the longest time that a session may last.
	sessionLimit = 10 * time.Second
)

var kinds = []kind{
	{name: "kill", limit: killedLimit, happen: kill},
	{name: "kill-restart", limit: killedLimit, happen: killRestart},
	{name: "kill-elsewhere", limit: killedLimit, happen: killElsewhere},
	{name: "kill-two", limit: killedLimit, happen: killTwo},
	{name: "forget", limit: moveLimit, happen: forget},
	{name: "stop", limit: killedLimit, happen: stop},
	{name: "drain", limit: killedLimit, happen: drain},
	{name: "upgrade", limit: killedLimit, happen: upgrade},
	{name: "upgrade-kill", limit: killedLimit, happen: upgradeKill},
	{name: "cut-reset", limit: killedLimit, happen: cutOne(refused)},
	{name: "cut-hang", limit: killedLimit, happen: cutOne(hanging)},
	{name: "cut-all-reset", limit: killedLimit, happen: cutAll(refused)},
	{name: "cut-all-hang", limit: killedLimit, happen: cutAll(hanging)},
	{name: "restart-fast", limit: epochLimit, happen: restart("fast")},
	{name: "restart-immediate", limit: epochLimit, happen: restart("immediate")},
	{name: "restart-sigkill", limit: epochLimit, happen: restart("sigkill")},
	{name: "failover", limit: epochLimit, happen: failOver},
	{name: "failover-newcomer", limit: epochLimit, happen: failOverNewcomer},
	{name: "failover-stopped", limit: epochLimit, happen: failOverStopped},
	{name: "kill-while-away", limit: epochLimit, happen: killWhileAway},
	{name: "raise-cap", limit: moveLimit, happen: raiseCap},
	{name: "lower-cap", limit: sessionLimit, happen: lowerCap},
	{name: "drain-backend", limit: moveLimit, happen: drainBackend},
	{name: "move-clients", limit: moveLimit, happen: moveClients},
	{name: "swap-clients", limit: moveLimit, happen: swapClients},
}

// kindNamed returns the kind of events with a name.
func kindNamed(name string) (kind, error) {
	var names []string
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	return kind{}, spelling.Unknown("event", name, names)
}
