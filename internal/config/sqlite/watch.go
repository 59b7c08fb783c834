package sqlite

import (
	"context"
	"fmt"
)

// watcher looks for changes by any connection, and for another file at the database's path. The poller's goroutine owns its fields.
type watcher struct {
	store  *Store
	handle int    // number of the handle that data and state are from; 0 for none, and after an error
	data   int64  // the value of PRAGMA data_version, which changes when another connection has written anything
	state  string // the handle and the configuration's version
}

// poll returns a text that is different for each state of the database.
func (w *watcher) poll(ctx context.Context) (_ string, err error) {
	defer func() {
		if err != nil {
			w.handle = 0
		}
	}()
	h, err := w.store.use(ctx)
	if err != nil {
		return "", err
	}
	defer h.users.Done()
	var data int64
	if err := h.pin.QueryRowContext(ctx, "PRAGMA data_version").Scan(&data); err != nil {
		return "", err
	}
	if h.number == w.handle && data == w.data {
		return w.state, nil
	}
	var version string
	if err := h.pin.QueryRowContext(ctx, "SELECT CAST(revision AS text) FROM head").Scan(&version); err != nil {
		return "", err
	}
	w.handle, w.data, w.state = h.number, data, fmt.Sprintf("%d %s", h.number, version)
	return w.state, nil
}
