package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/filelock"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// embedded are the files that create and migrate the schema.
//
//go:embed migrations/*.sql
var embedded embed.FS

// Migrate creates or migrates the database's schema, and returns the schema's version before and after. If several processes call
// it at once, they wait for one another. A [Store] migrates its database, too.
func Migrate(ctx context.Context, path string) (from, to int64, err error) {
	s := new(Store)
	if s.path, err = filepath.Abs(path); err != nil {
		return 0, 0, fmt.Errorf("database file: %w", err)
	}
	h, err := connect(ctx, s.path, false, false)
	if err != nil {
		return 0, 0, s.explain(err)
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if from, err = h.schema(ctx); err == nil {
		err = h.migrate(ctx, false)
	}
	if h.readOnly && from < dialect.Newest {
		err = fmt.Errorf("%w: %s is not writable: %w", config.ErrReadOnly, s.path, err)
	}
	return from, dialect.Newest, s.explain(err)
}

// Newest returns the newest version of the schema that this program knows.
func Newest() int64 { return dialect.Newest }

// migrate brings the schema up to date. If there was a schema before (known), a file without one is the wrong file.
func (h *handle) migrate(ctx context.Context, known bool) error {
	has, err := h.schema(ctx)
	if err == nil && has == 0 && known {
		err = h.strange(ctx)
	}
	if err != nil {
		return err
	}
	if h.readOnly || has > dialect.Newest {
		return dialect.CheckSchema(has)
	}
	upToDate, err := h.isUpToDate(ctx, has)
	if err != nil || upToDate {
		return err
	}
	unlock, err := filelock.Lock(ctx, h.path)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := h.pin.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil { // so that readers and a writer do not block one another
		return err
	}
	if _, _, err = tables.Migrate(ctx, dialect, database.DialectSQLite3, h.db, embedded); err != nil { // it checks again what there is to do
		return err
	}
	return h.makeTriggers(ctx)
}

// isUpToDate reports whether a database whose schema version is has needs no change.
func (h *handle) isUpToDate(ctx context.Context, has int64) (bool, error) {
	var mode string
	if err := h.pin.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" || has != dialect.Newest {
		return false, err
	}
	return h.hasTriggers(ctx)
}

// schema returns the version of the schema; 0 for an empty database.
func (h *handle) schema(ctx context.Context) (version int64, err error) {
	var ours, named int
	err = h.db.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE name = '"+tables.VersionTable+"'), count(*) FILTER (WHERE name IN ('services', 'backends'))"+
		" FROM sqlite_schema").Scan(&ours, &named) // at once, since another process may be making the schema
	switch {
	case err != nil || ours == 0 && named == 0:
		return 0, err
	case ours == 0:
		return 0, fmt.Errorf("%w: %s belongs to another program", config.ErrSchema, h.path)
	}
	err = h.db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+tables.VersionTable+" WHERE is_applied").Scan(&version)
	return version, err
}

// strange returns an error that describes a database without our tables, where there were some before.
func (h *handle) strange(ctx context.Context) error {
	var n int
	err := h.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").Scan(&n)
	switch {
	case err != nil:
		return err
	case n > 0:
		return fmt.Errorf("%w: %s belongs to another program", config.ErrSchema, h.path)
	}
	return fmt.Errorf("%w: %s has no tables", config.ErrMissing, h.path)
}
