package sqlite

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
)

// dataVersion returns a number that is another one when another process has written anything. It reads no page of the file.
func (h *handle) dataVersion(ctx context.Context) (version int64, err error) {
	err = h.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// revision returns the ledger's revision, which goes up with each change, and a beat is none.
func (h *handle) revision(ctx context.Context) (revision int64, err error) {
	err = h.conn.QueryRowContext(ctx, "SELECT revision FROM ledger").Scan(&revision)
	return revision, err
}

// read reads the whole ledger.
func (h *handle) read(ctx context.Context) (*fleet.Ledger, error) {
	l := storage.NewLedger()
	var past, departed string
	err := h.conn.QueryRowContext(ctx, "SELECT identity, epoch, past, departed, settled, version FROM ledger").
		Scan(&l.Identity, &l.Epoch, &past, &departed, &l.Settled, &l.Version)
	if err == nil {
		err = storage.DecodeHistory(l, past, departed)
	}
	if err != nil {
		return nil, err
	}
	if err := h.readMembers(ctx, l); err != nil {
		return nil, err
	}
	if err := h.readBeats(ctx, l); err != nil {
		return nil, err
	}
	return l, h.readAccounts(ctx, l)
}

// each calls read for each row of a query; scan gives it the row's values.
func (h *handle) each(ctx context.Context, query string, read func(scan func(into ...any) error) error) error {
	rows, err := h.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (h *handle) readMembers(ctx context.Context, l *fleet.Ledger) error {
	return h.each(ctx, "SELECT id, epoch, about FROM members", func(scan func(...any) error) error {
		var (
			id    fleet.ID
			epoch fleet.Epoch
			about string
		)
		if err := scan(&id, &epoch, &about); err != nil {
			return err
		}
		member, err := storage.DecodeMember(id, epoch, about)
		l.Members[id] = member
		return err
	})
}

// readBeats reads what each exchange changes of the members.
func (h *handle) readBeats(ctx context.Context, l *fleet.Ledger) error {
	return h.each(ctx, "SELECT id, beats, sequence, sessions, seen FROM members", func(scan func(...any) error) error {
		var (
			id              fleet.ID
			beats, sequence uint64
			sessions        int
			seen            int64
		)
		if err := scan(&id, &beats, &sequence, &sessions, &seen); err != nil {
			return err
		}
		if m := l.Members[id]; m != nil {
			m.Beats, m.Sequence, m.Sessions, m.Seen = beats, sequence, sessions, time.UnixMicro(seen)
		}
		return nil
	})
}

func (h *handle) readAccounts(ctx context.Context, l *fleet.Ledger) error {
	return h.each(ctx, "SELECT server, version, grants FROM accounts", func(scan func(...any) error) error {
		a := new(fleet.Account)
		var grants string
		err := scan(&a.Server, &a.Version, &grants)
		if err == nil {
			a.Grants, err = storage.DecodeGrants(a.Server, grants)
		}
		l.Accounts[a.Server] = a
		return err
	})
}

// writeBeat writes what each exchange changes of a member.
func (h *handle) writeBeat(ctx context.Context, m *fleet.Member) error {
	return patiently(ctx, func() error {
		_, err := h.conn.ExecContext(ctx, "UPDATE members SET beats = ?, sequence = ?, sessions = ?, seen = ? WHERE id = ?",
			int64(m.Beats), int64(m.Sequence), m.Sessions, m.Seen.UnixMicro(), m.ID)
		return err
	})
}

// write writes what has changed. by is the proxy whose exchange it is, if it is one.
func (h *handle) write(ctx context.Context, tx queryer, c *storage.Changes, by fleet.ID, revision int64) error {
	l := c.After
	past, departed := storage.EncodeHistory(l)
	_, err := tx.ExecContext(ctx, "UPDATE ledger SET identity = ?, epoch = ?, past = ?, departed = ?, settled = ?, version = ?, revision = ?",
		l.Identity, l.Epoch, past, departed, l.Settled, l.Version, revision)
	if err != nil {
		return err
	}
	for _, id := range c.Removed {
		if _, err := tx.ExecContext(ctx, "DELETE FROM members WHERE id = ?", id); err != nil {
			return err
		}
	}
	for _, id := range c.Members {
		m := l.Members[id]
		_, err := tx.ExecContext(ctx, `INSERT INTO members (id, epoch, about, beats, sequence, sessions, seen) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, about = excluded.about`,
			id, m.Epoch, storage.EncodeMember(m), int64(m.Beats), int64(m.Sequence), m.Sessions, m.Seen.UnixMicro())
		if err != nil {
			return err
		}
	}
	if m := l.Members[by]; m != nil {
		if err := h.writeBeat(ctx, m); err != nil {
			return err
		}
	}
	for _, server := range c.Gone {
		if _, err := tx.ExecContext(ctx, "DELETE FROM accounts WHERE server = ?", server); err != nil {
			return err
		}
	}
	for _, server := range c.Accounts {
		a := l.Accounts[server]
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts (server, version, cap, grants) VALUES (?, ?, ?, ?)
ON CONFLICT (server) DO UPDATE SET version = excluded.version, cap = excluded.cap, grants = excluded.grants`,
			server, a.Version, a.Cap(), storage.EncodeGrants(a.Grants))
		if err != nil {
			return err
		}
	}
	return nil
}
