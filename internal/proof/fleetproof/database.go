//go:build linux

package fleetproof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

const databaseName = "fleet"

// database is a PostgreSQL server with a standby, and the ways to it. One goroutine owns it.
type database struct {
	primary *pgtest.Server
	standby *pgtest.Server // nil until prepareStandby
	// replication is the way from the standby to the primary.
	replication *kit.Forwarder
	ways        []*kit.Forwarder // from the proxies; the last is the operator's, which is never cut
}

// startDatabase starts a server with an empty database, and makes that many ways for proxies.
func startDatabase(ctx context.Context, proxies int) (*database, error) {
	primary, err := pgtest.Started(ctx, databaseName)
	if err != nil {
		return nil, err
	}
	d := &database{primary: primary}
	for range proxies + 1 {
		f, err := kit.NewForwarder(primary.Address())
		if err != nil {
			d.close()
			return nil, err
		}
		d.ways = append(d.ways, f)
	}
	return d, nil
}

func (d *database) close() {
	for _, f := range d.ways {
		f.Close()
	}
	if d.replication != nil {
		d.replication.Close()
	}
	if d.standby != nil {
		d.standby.Remove()
	}
	d.primary.Remove()
}

// url returns the name of the database over a way.
func (d *database) url(way int) string { return pgtest.URLAt(d.ways[way].Address(), databaseName) }

// operator returns the name of the database over the way that is never cut.
func (d *database) operator() string { return d.url(len(d.ways) - 1) }

// restart ends the server in a way, and starts it again after a pause.
func (d *database) restart(ctx context.Context, end func() error, pause time.Duration) error {
	_ = end() // how it ended does not matter
	if err := kit.Wait(ctx, pause); err != nil {
		return err
	}
	return d.start(ctx, d.primary)
}

// start starts a server. After a SIGKILL, processes of its former life may still be there, and the first attempts fail.
func (d *database) start(ctx context.Context, s *pgtest.Server) error {
	var err error
	for range 20 {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = s.Start(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := kit.Wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

// prepareStandby makes and starts a standby that follows the primary.
func (d *database) prepareStandby(ctx context.Context) (err error) {
	if d.replication == nil {
		if d.replication, err = kit.NewForwarder(d.primary.Address()); err != nil {
			return err
		}
	}
	d.replication.Lead(d.primary.Address())
	d.replication.Become(kit.Open)
	if d.standby, err = pgtest.NewStandby(d.primary, d.replication.Address()); err != nil {
		return err
	}
	return d.start(ctx, d.standby)
}

// failOver ends the primary with SIGKILL, makes the standby the primary after a pause, and lets all ways lead there.
func (d *database) failOver(ctx context.Context, pause time.Duration) error {
	_ = d.primary.Destroy()
	if err := kit.Wait(ctx, pause); err != nil {
		return err
	}
	if err := pgtest.Execute(ctx, d.standby.DSN("postgres"), "SELECT pg_promote()"); err != nil {
		return fmt.Errorf("promoting the standby: %w", err)
	}
	d.primary.Remove()
	d.primary, d.standby = d.standby, nil
	for _, f := range d.ways {
		f.Lead(d.primary.Address())
	}
	return nil
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
