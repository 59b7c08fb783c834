package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// VersionTable is the name of the table in which goose records the schema's versions, without Dialect.Schema.
const VersionTable = "schema_version"

// Migrate applies the files migrations/NUMBER_name.sql that the schema lacks, and returns the schema's version before and after.
// The caller makes sure that only one migration runs at a time.
func Migrate(ctx context.Context, d Dialect, name database.Dialect, db *sql.DB, files fs.FS) (from, to int64, err error) {
	store, err := database.NewStore(name, d.Schema+VersionTable)
	if err != nil {
		return 0, 0, err
	}
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return 0, 0, err
	}
	provider, err := goose.NewProvider("", db, migrations, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("migrating the database schema: %w", err)
	}
	to, err = provider.GetDBVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the schema version: %w", err)
	}
	d.Newest = Newest(files) // tests migrate to earlier versions
	return to - int64(len(results)), to, d.CheckSchema(to)
}

// Newest returns the newest version that the files migrations/NUMBER_name.sql lead to, which are part of the program.
func Newest(files fs.FS) (newest int64) {
	names, err := fs.Glob(files, "migrations/*.sql")
	for _, file := range names {
		number, _, _ := strings.Cut(path.Base(file), "_")
		n, failed := strconv.ParseInt(number, 10, 64)
		newest, err = max(newest, n), errors.Join(err, failed)
	}
	if err != nil {
		panic(err)
	}
	return newest
}

// CheckSchema compares the version that a database's schema has with the newest that this program knows.
func (d *Dialect) CheckSchema(has int64) error {
	switch {
	case has > d.Newest:
		return fmt.Errorf("%w: it has version %d, and this program supports versions up to %d: use a newer wsbouncer", config.ErrSchema, has, d.Newest)
	case has < d.Newest:
		return fmt.Errorf("%w: it has version %d, and this program needs version %d: run wsbouncer migrate", config.ErrSchema, has, d.Newest)
	}
	return nil
}
