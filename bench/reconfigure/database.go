//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// database is where a configuration is kept.
type database struct {
	kind string
	name string // for --database
}

// makeDatabases makes the databases that are measured. clear removes those that are not in the directory.
func makeDatabases(ctx context.Context, directory string) (list []database, clear func(), err error) {
	list, clear = []database{{"SQLite", filepath.Join(directory, "config.db")}}, func() {}
	server, err := pgtest.New()
	switch {
	case errors.Is(err, pgtest.ErrNone):
		fmt.Println("PostgreSQL is skipped:", err)
	case err != nil:
		return nil, nil, err
	default:
		clear = server.Remove
		if err := begin(ctx, server); err != nil {
			clear()
			return nil, nil, err
		}
		list = append(list, database{"PostgreSQL", server.URL(pgtest.User, pgtest.Password, "postgres")})
	}
	for _, d := range list {
		if _, _, err := stores.Migrate(ctx, d.name); err != nil {
			clear()
			return nil, nil, err
		}
	}
	return list, clear, nil
}

// begin starts the server. Unlike a server for tests, it waits for the disk when it commits.
func begin(ctx context.Context, server *pgtest.Server) error {
	if err := server.Start(ctx); err != nil {
		return err
	}
	return pgtest.Execute(ctx, server.DSN("postgres"), "ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()")
}
