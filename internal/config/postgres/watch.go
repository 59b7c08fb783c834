package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
)

// watcher waits for announcements on a connection of its own. It also reads the version from time to time: some connection
// poolers pass on no announcements, and only a request shows that a server has vanished.
type watcher struct {
	config *pgx.ConnConfig // static
	every  time.Duration   // static: the time between two reads
	calm   time.Duration   // static: the same while announcements arrive
	conn   *pgx.Conn       // owned by the poller's goroutine; nil while there is none
	direct bool            // owned by the poller's goroutine: announcements arrive
}

// poll waits for an announcement or until the next poll is due, and returns the configuration's version.
func (w *watcher) poll(ctx context.Context) (version string, err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	switch {
	case w.conn == nil:
		err = w.connect(ctx)
	default:
		err = w.wait(ctx)
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	err = w.conn.QueryRow(ctx, "SELECT revision::text FROM wsbouncer.head").Scan(&version)
	return version, err
}

func (w *watcher) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout) // there may be several hosts
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, w.config.Copy())
	if err != nil {
		return err
	}
	w.conn = conn
	if _, err = conn.Exec(ctx, "LISTEN wsbouncer"); err != nil {
		return err
	}
	w.direct = pgconnect.IsDirect(ctx, conn)
	return nil
}

// wait waits for an announcement, or for the time between two polls.
func (w *watcher) wait(ctx context.Context) error {
	every := w.every
	if w.direct {
		every = w.calm
	}
	timed, cancel := context.WithTimeout(ctx, every-rand.N(every/4)) // so that not all proxies read at once
	defer cancel()
	_, err := w.conn.WaitForNotification(timed)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil && !w.conn.IsClosed():
		return nil
	case err != nil:
		return fmt.Errorf("waiting for announcements: %w", err)
	}
	return nil
}

// close closes the connection.
func (w *watcher) close() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
	w.conn = nil
}
