//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

const databaseName = "fleet"

// database is a PostgreSQL server with a standby, and the ways to it. One goroutine owns it.
type database struct {
	primary *pgtest.Server
	standby *pgtest.Server // nil until prepareStandby
	// replication is the way from the standby to the primary.
	replication *forwarder
	ways        []*forwarder // from the proxies; the last is the operator's, which is never cut
}

// startDatabase starts a server with an empty database, and makes that many ways for proxies.
func startDatabase(ctx context.Context, proxies int) (*database, error) {
	primary, err := pgtest.New()
	if err != nil {
		return nil, err
	}
	d := &database{primary: primary}
	if err := d.begin(ctx, proxies); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *database) begin(ctx context.Context, proxies int) error {
	if err := d.primary.Start(ctx); err != nil {
		return err
	}
	if err := d.execute(ctx, d.primary, "postgres", "CREATE DATABASE "+databaseName); err != nil {
		return err
	}
	for range proxies + 1 {
		f, err := newForwarder(address(d.primary))
		if err != nil {
			return err
		}
		d.ways = append(d.ways, f)
	}
	return nil
}

func address(s *pgtest.Server) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

func (d *database) close() {
	for _, f := range d.ways {
		f.close()
	}
	if d.replication != nil {
		d.replication.close()
	}
	if d.standby != nil {
		d.standby.Remove()
	}
	d.primary.Remove()
}

// url returns the name of the database over a way.
func (d *database) url(way int) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", pgtest.User, pgtest.Password, d.ways[way].address(), databaseName)
}

// operator returns the name of the database over the way that is never cut.
func (d *database) operator() string { return d.url(len(d.ways) - 1) }

func (d *database) execute(ctx context.Context, s *pgtest.Server, name, statement string) error {
	conn, err := pgx.Connect(ctx, s.DSN(name))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// restart ends the server in a way, and starts it again after a pause.
func (d *database) restart(ctx context.Context, end func() error, pause time.Duration) error {
	_ = end() // how it ended does not matter
	if err := wait(ctx, pause); err != nil {
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
		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

// prepareStandby makes and starts a standby that follows the primary.
func (d *database) prepareStandby(ctx context.Context) error {
	if d.replication == nil {
		f, err := newForwarder(address(d.primary))
		if err != nil {
			return err
		}
		d.replication = f
	}
	d.replication.lead(address(d.primary))
	d.replication.become(open)
	host, port, err := net.SplitHostPort(d.replication.address())
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	if d.standby, err = pgtest.NewStandby(d.primary, host, number); err != nil {
		return err
	}
	return d.start(ctx, d.standby)
}

// failOver ends the primary with SIGKILL, makes the standby the primary after a pause, and lets all ways lead there.
func (d *database) failOver(ctx context.Context, pause time.Duration) error {
	_ = d.primary.Destroy()
	if err := wait(ctx, pause); err != nil {
		return err
	}
	if err := d.execute(ctx, d.standby, "postgres", "SELECT pg_promote()"); err != nil {
		return fmt.Errorf("promoting the standby: %w", err)
	}
	d.primary.Remove()
	d.primary, d.standby = d.standby, nil
	for _, f := range d.ways {
		f.lead(address(d.primary))
	}
	return nil
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
