//go:build linux

package fleetproof

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// sumInterval is the time between two looks into the ledger.
const sumInterval = time.Second

// sums looks into the ledger until ctx ends: once all proxies have said what they hold, all grants of a server together must not be more than
// its cap; after the cap was lowered, they may only fall.
func (r *proof) sums(ctx context.Context) {
	database := r.database.operator()
	above := make(map[*seen]int)
	for wait(ctx, sumInterval) == nil {
		sums, err := readSums(ctx, database)
		if err != nil { // the database is down
			clear(above)
			continue
		}
		r.watcher.mu.Lock()
		now := make(map[*seen]int)
		for address, s := range r.watcher.servers {
			for server, places := range sums {
				if strings.HasPrefix(server, address.String()+":") && !r.watcher.forgot && places > s.limit+s.Excused && time.Since(s.lowered) > settling {
					now[s] = places
				}
			}
		}
		r.watcher.looks++
		r.watcher.mu.Unlock()
		for s, places := range now {
			// Twice in a row: a cap may have been lowered, or a database replaced, between the two that are compared.
			if before := above[s]; before > 0 && places >= before {
				r.journal.violation("the ledger has granted more places than the cap", nil, "%s: %d places are granted", s.name, places)
			}
		}
		above = now
	}
}

// grantsNothing reports whether the ledger grants nothing as yet, since the database was restarted or replaced.
func (r *proof) grantsNothing(ctx context.Context) bool {
	if time.Since(r.replaced) > epochLimit {
		return false
	}
	_, err := readSums(ctx, r.database.operator())
	return errors.Is(err, errUnsettled)
}

var errUnsettled = errors.New("not all proxies have said what they hold")

// readSums returns how many places of each server are granted.
func readSums(ctx context.Context, database string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var settled bool
	if err := conn.QueryRow(ctx, "SELECT settled FROM wsbouncer.fleet").Scan(&settled); err != nil {
		return nil, err
	}
	if !settled {
		return nil, errUnsettled
	}
	rows, err := conn.Query(ctx, "SELECT server, sum(places)::int FROM wsbouncer.fleet_grants GROUP BY server")
	if err != nil {
		return nil, err
	}
	sums := make(map[string]int)
	var server string
	var places int
	_, err = pgx.ForEachRow(rows, []any{&server, &places}, func() error { sums[server] = places; return nil })
	return sums, err
}
