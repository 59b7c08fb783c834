package tables

import (
	"context"
	"database/sql"
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
	newest, err := Newest(files)
	if err != nil {
		return 0, 0, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("migrating the database schema: %w", err)
	}
	to, err = provider.GetDBVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return to - int64(len(results)), to, CheckSchema(to, newest)
}

// Newest returns the newest version that the files migrations/NUMBER_name.sql lead to.
func Newest(files fs.FS) (newest int64, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	for _, file := range names {
		number, _, _ := strings.Cut(path.Base(file), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the migration %s has no number", file)
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// CheckSchema compares the version that a database's schema has with the newest that this program knows.
func CheckSchema(has, newest int64) error {
	switch {
	case has > newest:
		return fmt.Errorf("%w: it has version %d, and this program supports versions up to %d: use a newer wsbouncer", config.ErrSchema, has, newest)
	case has < newest:
		return fmt.Errorf("%w: it has version %d, and this program needs version %d: run wsbouncer migrate", config.ErrSchema, has, newest)
	}
	return nil
}
