// Package sqlite keeps the ledger of a fleet in an SQLite file, for proxies on one host that share a state directory or a configuration's
// database.
package sqlite

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Options are what a store is made with.
type Options struct {
	Log  *slog.Logger  // may be nil
	Poll time.Duration // how often it looks for changes by other processes; 0 for four times a second
}

// Open returns the store in a file. It does not open the file: the first use does, and makes a missing file; the directory must exist.
func Open(path string, o Options) (fleet.Store, error) { panic("not written yet") }
