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
)

// embedded are the files that make the schema.
//
//go:embed migrations/*.sql
var embedded embed.FS

// Migrate makes the schema wsbouncer, or brings it up to date, and returns the versions that it had and has. Others who do the
// same at the same time wait for one another. The user needs the right to create the schema, or to own it.
func Migrate(ctx context.Context, dsn string) (from, to int64, err error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return 0, 0, errDSN
	}
	settle(c)
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

// lockNumber is that of the advisory lock, which must differ from those of other programs on the database.
const lockNumber = 0x7773626f756e6365 // "wsbounce"

// makeSchema makes the schema if there is none: CREATE SCHEMA IF NOT EXISTS needs the right to make one in any case.
func makeSchema(ctx context.Context, conn *sql.Conn) error {
	var exists bool
	err := conn.QueryRowContext(ctx, "SELECT to_regnamespace('wsbouncer') IS NOT NULL").Scan(&exists)
	if err == nil && !exists {
		_, err = conn.ExecContext(ctx, "CREATE SCHEMA wsbouncer")
	}
	return err
}
