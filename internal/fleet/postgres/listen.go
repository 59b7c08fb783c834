package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// channel is that of the announcements. Their text is the ids of the proxies that they concern, with commas between, or
// everyone.
const (
	channel  = "wsbouncer_fleet"
	everyone = "*"
)

// maxPayload is how long an announcement's text is at most; PostgreSQL allows 7,999 bytes.
const maxPayload = 7000

// payload returns the announcement for proxies; nothing for none.
func payload(concerned []fleet.ID) string {
	var b strings.Builder
	for i, id := range concerned {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(id))
		if b.Len() > maxPayload {
			return everyone
		}
	}
	return b.String()
}

// isAddressedTo reports whether an announcement is for a proxy.
func isAddressedTo(payload string, id fleet.ID) bool {
	return payload == everyone || slices.Contains(strings.Split(payload, ","), string(id))
}

const (
	// silence is after how long without an announcement the connection is tried out: only a request shows that a server has vanished.
	silence = 15 * time.Second
	// firstRetry and lastRetry are how long it waits before it connects again, or until the database answers again.
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
)

// Changed implements [fleet.Store]. It keeps a connection that listens, as long as ctx lasts. While there is none, nothing is received.
func (s *Store) Changed(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	s.listeners.Go(func() {
		defer close(changed)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ended, cancel)()
		retry := s.firstRetry
		for ctx.Err() == nil {
			if s.listen(ctx, changed) {
				retry = s.firstRetry
			}
			select {
			case <-time.After(retry):
			case <-s.recovered: // until it listens, places move with heartbeats only
				retry = s.firstRetry
				continue
			case <-ctx.Done():
			}
			retry = min(2*retry, lastRetry)
		}
	})
	return changed
}

// Notifies implements [fleet.Store].
func (s *Store) Notifies() bool { return s.notifies.Load() }

// listen listens until the connection fails or ctx ends. It returns whether it has listened at all.
func (s *Store) listen(ctx context.Context, changed chan<- struct{}) (listened bool) {
	connecting, cancel := context.WithTimeout(ctx, 2*pgconnect.Timeout) // there may be several hosts
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, s.config.Copy())
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false
	}
	s.notifies.Store(pgconnect.IsDirect(connecting, conn))
	defer s.notifies.Store(false)
	for {
		waiting, cancel := context.WithTimeout(ctx, silence)
		n, err := conn.WaitForNotification(waiting)
		isSilent := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return true
		case err == nil:
			if self := s.self.Load(); self != nil && isAddressedTo(n.Payload, *self) {
				tasks.Wake(changed)
			}
		case !isSilent || conn.IsClosed() || !answers(ctx, conn):
			return true
		}
	}
}

// answers tries out a connection.
func answers(ctx context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, pgconnect.Timeout)
	defer cancel()
	return conn.Ping(ctx) == nil
}
