package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config/tables"
	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
)

// embedded are the files that create and migrate the schema.
//
//go:embed migrations/*.sql
var embedded embed.FS

// Migrate creates or migrates the schema wsbouncer, and returns the schema's version before and after. If several processes call it
// at once, they wait for one another. The user must own the schema, or have the right to create it.
func Migrate(ctx context.Context, dsn string) (from, to int64, err error) {
	err = alone(ctx, dsn, func(db *sql.DB, lock *sql.Conn) error {
		if err := makeSchema(ctx, lock); err != nil {
			return fmt.Errorf("creating the schema wsbouncer: %w", err)
		}
		from, to, err = tables.Migrate(ctx, dialect, database.DialectPostgres, db, embedded)
		return err
	})
	return from, to, err
}

// Grant gives roles of the database server the rights that they need in the migrated schema: proxy those of a proxy, and admin those of
// commands that change the configuration. An empty name is none. The user must own the schema.
func Grant(ctx context.Context, dsn, proxy, admin string) error {
	return alone(ctx, dsn, func(_ *sql.DB, lock *sql.Conn) error {
		err := grant(ctx, lock, proxy, "wsbouncer.fleet", "wsbouncer.fleet_members", "wsbouncer.fleet_beats", "wsbouncer.fleet_accounts", "wsbouncer.usage")
		if err == nil {
			err = grant(ctx, lock, admin, "wsbouncer.profiles", "wsbouncer.services", "wsbouncer.backends", "wsbouncer.tenants", "wsbouncer.keys")
		}
		return err
	})
}

// grant gives a role the rights to read all tables, and to write some.
func grant(ctx context.Context, conn *sql.Conn, role string, writes ...string) error {
	if role == "" {
		return nil
	}
	for _, right := range []string{"USAGE ON SCHEMA wsbouncer", "SELECT ON ALL TABLES IN SCHEMA wsbouncer", "INSERT, UPDATE, DELETE ON " + strings.Join(writes, ", ")} {
		if _, err := conn.ExecContext(ctx, "GRANT "+right+" TO "+pgx.Identifier{role}.Sanitize()); err != nil {
			return fmt.Errorf("granting rights to the role %s: %w", role, err)
		}
	}
	// A user that may not grant them gets a warning, if it has some of these rights itself.
	var has bool
	err := conn.QueryRowContext(ctx, "SELECT bool_and(has_table_privilege($1, t, 'INSERT')) FROM unnest($2::text[]) t", role, writes).Scan(&has)
	switch {
	case err != nil:
		return fmt.Errorf("the rights of the role %s: %w", role, err)
	case !has:
		return fmt.Errorf("granting rights to the role %s: only the role that owns the schema can", role)
	}
	return nil
}

// alone calls a function while no other process migrates the database, with a connection that holds the lock.
func alone(ctx context.Context, dsn string, do func(db *sql.DB, lock *sql.Conn) error) (err error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return pgconnect.ErrDSN
	}
	pgconnect.Settle(c, "wsbouncer")
	db := stdlib.OpenDB(*c)
	defer func() { err = errors.Join(err, db.Close()) }()
	lock, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err = lock.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(lockNumber)); err != nil {
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	defer func() {
		_, unlocking := lock.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(lockNumber))
		err = errors.Join(err, unlocking)
	}()
	return do(db, lock)
}

// Newest returns the newest version of the schema that this program knows.
func Newest() int64 { return dialect.Newest }

// lockNumber is the number of the advisory lock. Other programs on the same database must use other numbers.
const lockNumber = 0x7773626f756e6365 // "wsbounce"

// makeSchema creates the schema if it is missing. It checks first, since CREATE SCHEMA IF NOT EXISTS needs the right to create one
// even if the schema exists.
func makeSchema(ctx context.Context, conn *sql.Conn) error {
	var exists bool
	err := conn.QueryRowContext(ctx, "SELECT to_regnamespace('wsbouncer') IS NOT NULL").Scan(&exists)
	if err == nil && !exists {
		_, err = conn.ExecContext(ctx, "CREATE SCHEMA wsbouncer")
	}
	return err
}
