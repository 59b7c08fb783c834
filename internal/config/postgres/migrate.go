package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

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
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return 0, 0, pgconnect.ErrDSN
	}
	pgconnect.Settle(c, "wsbouncer")
	db := stdlib.OpenDB(*c)
	defer func() { err = errors.Join(err, db.Close()) }()
	lock, err := db.Conn(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("database: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err = lock.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(lockNumber)); err != nil {
		return 0, 0, fmt.Errorf("waiting for another migration: %w", err)
	}
	defer func() {
		_, unlocking := lock.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(lockNumber))
		err = errors.Join(err, unlocking)
	}()
	if err = makeSchema(ctx, lock); err != nil {
		return 0, 0, fmt.Errorf("creating the schema wsbouncer: %w", err)
	}
	return tables.Migrate(ctx, dialect, database.DialectPostgres, db, embedded)
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
