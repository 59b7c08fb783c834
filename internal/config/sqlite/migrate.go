package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3/database"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/filelock"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrations returns the files that make the schema.
func migrations() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is valid
	}
	return files
}

// Migrate makes the database's schema, or brings it up to date, and returns the versions that it had and has. Others who do the
// same at the same time wait for one another. [Open] does so too.
func Migrate(ctx context.Context, path string) (from, to int64, err error) {
	s := &Store{path: path}
	if err := s.connect(); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	if from, err = s.schema(ctx); err == nil {
		err = s.migrate(ctx)
	}
	if s.readOnly && from < s.newest {
		err = fmt.Errorf("%w: %s may not be written: %w", config.ErrReadOnly, s.path, err)
	}
	return from, s.newest, s.explain(err)
}

// migrate brings the schema up to date, if it is not.
func (s *Store) migrate(ctx context.Context) error {
	newest, err := tables.Newest(migrations())
	if err != nil {
		return err
	}
	s.newest = newest
	has, err := s.schema(ctx)
	if err != nil {
		return err
	}
	if has >= newest || s.readOnly {
		return tables.CheckSchema(has, newest)
	}
	if s.path != Memory {
		unlock, err := filelock.Lock(ctx, s.path)
		if err != nil {
			return err
		}
		defer unlock()
	}
	_, _, err = tables.Migrate(ctx, dialect, database.DialectSQLite3, s.db, migrations()) // looks again what there is to do
	return err
}

// schema returns the version that the schema has; 0 for an empty database.
func (s *Store) schema(ctx context.Context) (version int64, err error) {
	var n int
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = '"+tables.VersionTable+"'").Scan(&n)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name IN ('services', 'backends')").Scan(&n)
		if err == nil && n > 0 {
			err = fmt.Errorf("%w: %s is the database of another program", config.ErrSchema, s.path)
		}
		return 0, err
	}
	err = s.db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+tables.VersionTable+" WHERE is_applied").Scan(&version)
	return version, err
}
