// Package postgres keeps the ledger of a fleet in a PostgreSQL database, in the schema wsbouncer, which [wsbouncer migrate] makes.
package postgres

import (
	"log/slog"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Options are what a store is made with.
type Options struct {
	Log *slog.Logger // may be nil
}

// Open returns the store in a database that is given as a URL (postgres://user@host/name) or as settings (host=... user=...), as for
// psql. It does not connect: the first use does. Its error never shows a password.
func Open(dsn string, o Options) (fleet.Store, error) { panic("not written yet") }
