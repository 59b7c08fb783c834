// Package postgres keeps a configuration in a PostgreSQL database, for more than one proxy. Triggers announce each change (NOTIFY),
// including those by plain SQL. The store also polls, in case an announcement does not arrive.
//
// Opening a store does not connect, so it works even while the database cannot be reached. [Migrate] creates the schema; it needs
// more rights than a store does.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
)

// Store is a [config.Store] in a PostgreSQL database.
type Store struct {
	*tables.Store // static

	pool    *pgxpool.Pool  // static
	poller  *config.Poller // static
	watcher *watcher       // owned by the poller's goroutine
	closed  atomic.Bool

	lockTimeout time.Duration // static: how long a writer waits for another one
}

var _ config.Store = (*Store)(nil)

var dialect = tables.Dialect{
	Schema: "wsbouncer.", Parameter: "$", Newest: tables.Newest(embedded), Time: `to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
	Hour: `to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')`,
}

const (
	// defaultPoll is about how often the store reads the version behind a connection pooler, through which no announcements may come, and
	// calmPoll how often it does otherwise.
	defaultPoll, calmPoll = time.Second, 5 * time.Second
	// connectTimeout is how long connecting to one host may take.
	connectTimeout = pgconnect.Timeout
	// defaultLockTimeout is how long a writer waits for another one.
	defaultLockTimeout = 5 * time.Second
)

// Open returns the store in a database that is given as a URL (postgres://user@host/name) or as settings (host=... user=...),
// as for psql. Its error never shows a password.
func Open(dsn string, options config.Options) (*Store, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, pgconnect.ErrDSN
	}
	pgconnect.Settle(c.ConnConfig, "wsbouncer")
	if !strings.Contains(dsn, "pool_max_conns") {
		c.MaxConns = 4
	}
	s := &Store{lockTimeout: defaultLockTimeout}
	s.Store = tables.NewStore(s.transact, options, func() { s.poller.Ring() })
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	s.watcher = &watcher{config: c.ConnConfig, every: defaultPoll, calm: calmPoll}
	s.poller = config.NewPoller(0, defaultPoll, s.watcher.poll)
	return s, nil
}

// explain translates an error of PostgreSQL for an operator.
func (s *Store) explain(err error) error {
	var failure *pgconn.PgError
	if pgconnect.IsOutage(err) {
		return config.Unreachable(pgconnect.Plain(err))
	}
	if pooled := pgconnect.Pooled(err); pooled != nil {
		return pooled
	}
	if !errors.As(err, &failure) {
		return err
	}
	switch failure.Code {
	case "25006", "42501": // read_only_sql_transaction, insufficient_privilege
		return fmt.Errorf("%w: %w", config.ErrReadOnly, err)
	case "3F000", "42P01": // invalid_schema_name, undefined_table
		return fmt.Errorf("%w: the database has no wsbouncer tables: run wsbouncer migrate: %w", config.ErrSchema, err)
	case "55P03": // lock_not_available
		return fmt.Errorf("another transaction has kept the configuration locked for %v: %w", s.lockTimeout, err)
	}
	return err
}

var (
	// reading is for transactions that see one state of all tables.
	reading = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	// writing is for transactions that write. Each statement sees what was committed before it; after Lock no other transaction commits.
	// The server decides whether the user may write.
	writing = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
)

// transact is a [tables.Transact].
func (s *Store) transact(ctx context.Context, write bool, f func(*tables.Tables) (commit bool, err error)) error {
	options := reading
	if write {
		options = writing
	}
	if s.closed.Load() {
		return config.ErrClosed
	}
	tx, err := s.pool.BeginTx(ctx, options)
	if err != nil {
		if s.closed.Load() {
			return config.ErrClosed
		}
		return fmt.Errorf("database: %w", s.explain(err))
	}
	defer func() { // after a commit it does nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	commit, err := f(&tables.Tables{Dialect: dialect, Tx: transaction{tx, s.lockTimeout}})
	if err == nil && commit {
		err = tx.Commit(ctx)
	}
	return s.explain(err)
}

// Watch implements [config.Store].
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.poller.Watch(ctx) }

// Close implements [config.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.poller.Close()
	s.watcher.close()
	s.pool.Close()
	return nil
}
