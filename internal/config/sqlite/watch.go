package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// watcher looks for changes by any connection, over one that it keeps.
type watcher struct {
	store   *Store
	every   time.Duration
	conn    *sql.Conn
	data    int64  // what PRAGMA data_version said; it changes when another connection has written anything
	version string // the configuration's
}

// look waits for the time between two looks, and returns the configuration's version.
func (w *watcher) look(ctx context.Context) (_ string, err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.conn == nil {
		if w.conn, err = w.store.db.Conn(ctx); err != nil {
			return "", err
		}
	} else {
		timer := time.NewTimer(w.every)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	var data int64
	if err := w.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&data); err != nil {
		return "", err
	}
	if data == w.data && w.version != "" {
		return w.version, nil
	}
	w.data = data
	err = w.conn.QueryRowContext(ctx, "SELECT CAST(revision AS text) FROM head").Scan(&w.version)
	return w.version, err
}

// close gives the connection up.
func (w *watcher) close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
	w.conn, w.version = nil, ""
}

// waitForEnd is look for a database that nobody else can write.
func waitForEnd(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}
