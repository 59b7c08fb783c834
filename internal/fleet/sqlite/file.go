package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// schemaVersion is that of the tables in the file (PRAGMA user_version).
const schemaVersion = 1

// schema makes the tables. grants is what change.EncodeGrants returns. The triggers are the second line of defence, as in PostgreSQL
// (internal/config/postgres/migrations/10_fleet.sql): beyond the cap, no proxy gets more than it holds already.
const schema = `
CREATE TABLE ledger (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    identity TEXT NOT NULL,
    epoch TEXT NOT NULL,
    past TEXT NOT NULL,
    departed TEXT NOT NULL,
    settled INTEGER NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL
);
CREATE TABLE members (
    id TEXT PRIMARY KEY,
    epoch TEXT NOT NULL,
    about TEXT NOT NULL,
    beats INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    sessions INTEGER NOT NULL,
    seen INTEGER NOT NULL
);
CREATE TABLE accounts (
    server TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    cap INTEGER NOT NULL,
    grants TEXT NOT NULL
);
CREATE TRIGGER within_cap_insert AFTER INSERT ON accounts
WHEN (SELECT sum(value ->> 1) FROM json_each(NEW.grants)) > NEW.cap BEGIN
    SELECT RAISE(ABORT, 'more places than the server has would be granted') FROM json_each(NEW.grants) AS g
    WHERE g.value ->> 1 > g.value ->> 3;
END;
CREATE TRIGGER within_cap_update AFTER UPDATE ON accounts
WHEN (SELECT sum(value ->> 1) FROM json_each(NEW.grants)) > NEW.cap BEGIN
    SELECT RAISE(ABORT, 'more places than the server has would be granted') FROM json_each(NEW.grants) AS g
    WHERE g.value ->> 1 > max(g.value ->> 3, coalesce((SELECT b.value ->> 1 FROM json_each(OLD.grants) AS b WHERE b.value ->> 0 = g.value ->> 0), 0));
END;
`

// busyTimeout is how long SQLite waits for another process that writes, before patiently looks whether there is time for more.
const busyTimeout = 50 * time.Millisecond

// handle is the open file. SQLite opens a file by its path, so a handle remembers the file's identity.
type handle struct {
	path string
	db   *sql.DB
	conn *sql.Conn // the only connection: PRAGMA data_version tells about others' changes
	file os.FileInfo
	lock *flock.Flock // shared, on FILE.lock: held by each process that uses the ledger
}

// connect opens the file, and makes a ledger in it if there is none, or only one of an earlier boot.
func (s *Store) connect(ctx context.Context) (h *handle, err error) {
	directory := filepath.Dir(s.path)
	if info, err := os.Stat(directory); err != nil {
		return nil, fmt.Errorf("the directory of the fleet's ledger: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("the directory of the fleet's ledger: %s is not a directory", directory)
	}
	if kind := machine.NetworkFile(directory); kind != "" {
		return nil, fmt.Errorf("%w: %s is on %s: use a state directory on a local disk, or PostgreSQL", fleet.ErrNetworkFile, s.path, kind)
	}
	h = &handle{path: s.path}
	if h.file, err = prepare(s.path); err != nil {
		return nil, err
	}
	parameters := url.Values{
		"mode": {"rw"}, "_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(OFF)"},
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(s.path), RawQuery: parameters.Encode()}
	if h.db, err = sql.Open("sqlite", name.String()); err != nil {
		return nil, err
	}
	h.db.SetMaxOpenConns(1)
	if h.conn, err = h.db.Conn(ctx); err == nil {
		err = s.begin(ctx, h)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// prepare returns the file, and makes a missing one: SQLite would make a file that everybody can read.
func prepare(path string) (os.FileInfo, error) {
	file, err := fileowner.Open(path, 0o640)
	if err != nil {
		return nil, fmt.Errorf("the file of the fleet's ledger: %w", err)
	}
	defer file.Close()
	return file.Stat()
}

// lost is the identity of a ledger that replaces one that a process still uses.
const lost = "lost"

// begin makes the tables if there are none, and empties those of an earlier boot. Then it takes the shared lock.
func (s *Store) begin(ctx context.Context, h *handle) error {
	err := patiently(ctx, func() error {
		_, err := h.conn.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		return err
	})
	if err != nil {
		return err
	}
	lock, err := fileowner.Open(s.path+".lock", 0o640) // flock would make root's file, wherever a link leads
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	_ = lock.Close()
	h.lock = flock.New(s.path+".lock", flock.SetFlag(os.O_RDWR|fileowner.NoFollow))
	err = h.transact(ctx, func() error {
		var version, tables int
		if err := h.conn.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version").Scan(&version, &tables); err != nil {
			return err
		}
		switch {
		case version > schemaVersion:
			return fmt.Errorf("the fleet's ledger %s has schema version %d, and this program supports versions up to %d: use a newer wsbouncer", s.path, version, schemaVersion)
		case version == 0 && tables > 0:
			return fmt.Errorf("the fleet's ledger %s belongs to another program: move it away", s.path)
		case version == 0:
			return s.create(ctx, h)
		}
		return s.empty(ctx, h)
	})
	if err != nil {
		return err
	}
	if !h.isCurrent() {
		return fmt.Errorf("%s was replaced by another file", s.path)
	}
	_, err = h.lock.TryRLockContext(ctx, 10*time.Millisecond)
	return err
}

// create makes the tables. If a process still uses a ledger that was there before, the new one begins as a lost one.
func (s *Store) create(ctx context.Context, h *handle) error {
	identity := ""
	switch alone, err := h.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("locking %s: %w", h.lock.Path(), err)
	case !alone:
		identity = lost
	default:
		defer func() { _ = h.lock.Unlock() }()
	}
	if s.lost {
		identity = lost
	}
	if _, err := h.conn.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	_, err := h.conn.ExecContext(ctx, "INSERT INTO ledger VALUES (1, ?, '', '[]', '[]', 0, 0, 0)", identity)
	return err
}

// empty removes all that proxies of an earlier boot have left. If the file took the place of one that this proxy went by, a new epoch begins.
func (s *Store) empty(ctx context.Context, h *handle) error {
	var identity string
	if err := h.conn.QueryRowContext(ctx, "SELECT identity FROM ledger").Scan(&identity); err != nil {
		return err
	}
	if s.lost && strings.HasPrefix(identity, bootPrefix) { // an earlier copy was put in its place
		_, err := h.conn.ExecContext(ctx, "UPDATE ledger SET identity = ?, revision = revision + 1", lost)
		return err
	}
	if s.boot == "" || !strings.HasPrefix(identity, bootPrefix) || identity == s.identity() {
		return nil
	}
	_, err := h.conn.ExecContext(ctx, `DELETE FROM members; DELETE FROM accounts;
UPDATE ledger SET identity = '', epoch = '', past = '[]', departed = '[]', settled = 0, version = 0, revision = revision + 1`)
	return err
}

// putAside renames a damaged file, so that a new one can take its place.
func (s *Store) putAside(damage error) error {
	s.leave()
	aside := s.path + ".damaged"
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(s.path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(damage, err)
		}
	}
	if err := os.Rename(s.path, aside); err != nil {
		return errors.Join(damage, err)
	}
	s.lost = true
	s.log.Error("the file of the fleet's ledger was damaged and is put aside: grants are frozen until all proxies have said what they hold",
		"file", s.path, "aside", aside, "error", damage)
	return nil
}

// isCurrent reports whether the file at the path is still this one.
func (h *handle) isCurrent() bool {
	now, err := os.Stat(h.path)
	return err == nil && os.SameFile(h.file, now)
}

// transact runs f in a transaction that no other writer can come between.
func (h *handle) transact(ctx context.Context, f func() error) (err error) {
	err = patiently(ctx, func() error {
		_, err := h.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		return err
	})
	if err != nil {
		h.rollBack(ctx) // the driver says that the context has ended also if the transaction has begun meanwhile
		return err
	}
	if err = f(); err == nil {
		_, err = h.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		h.rollBack(ctx)
	}
	return err
}

// rollBack ends a transaction, if there is one, which would keep the file locked for all processes.
func (h *handle) rollBack(ctx context.Context) {
	_, _ = h.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
}

// patiently repeats f while another process writes.
func patiently(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !isBusy(err) || ctx.Err() != nil {
			return err
		}
	}
}

// isBusy reports whether an error says that another process writes.
func isBusy(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_BUSY
}

// close closes the file. Others continue with it.
func (h *handle) close() {
	if h.conn != nil {
		_ = h.conn.Close() // it goes back to the pool
	}
	_ = h.db.Close()
	if h.lock != nil {
		_ = h.lock.Close()
	}
}

// dataVersion returns a number that is another one when another process has written anything. It reads no page of the file.
func (h *handle) dataVersion(ctx context.Context) (version int64, err error) {
	err = h.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// revision returns the ledger's revision, which goes up with each change, and a heartbeat is none.
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
	if err := h.readHeartbeats(ctx, l); err != nil {
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

// readHeartbeats reads what each exchange changes of the members.
func (h *handle) readHeartbeats(ctx context.Context, l *fleet.Ledger) error {
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
			m.Heartbeats, m.Sequence, m.Sessions, m.Seen = beats, sequence, sessions, time.UnixMicro(seen)
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

// writeHeartbeat writes what each exchange changes of a member.
func (h *handle) writeHeartbeat(ctx context.Context, m *fleet.Member) error {
	return patiently(ctx, func() error {
		_, err := h.conn.ExecContext(ctx, "UPDATE members SET beats = ?, sequence = ?, sessions = ?, seen = ? WHERE id = ?",
			int64(m.Heartbeats), int64(m.Sequence), m.Sessions, m.Seen.UnixMicro(), m.ID)
		return err
	})
}

// write writes what has changed, in a transaction. by is the proxy whose exchange it is, if it is one.
func (h *handle) write(ctx context.Context, c *storage.Changes, by fleet.ID, revision int64) error {
	l := c.After
	past, departed := storage.EncodeHistory(l)
	_, err := h.conn.ExecContext(ctx, "UPDATE ledger SET identity = ?, epoch = ?, past = ?, departed = ?, settled = ?, version = ?, revision = ?",
		l.Identity, l.Epoch, past, departed, l.Settled, l.Version, revision)
	if err != nil {
		return err
	}
	for _, id := range c.Removed {
		if _, err := h.conn.ExecContext(ctx, "DELETE FROM members WHERE id = ?", id); err != nil {
			return err
		}
	}
	for _, id := range c.Members {
		m := l.Members[id]
		_, err := h.conn.ExecContext(ctx, `INSERT INTO members (id, epoch, about, beats, sequence, sessions, seen) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, about = excluded.about`,
			id, m.Epoch, storage.EncodeMember(m), int64(m.Heartbeats), int64(m.Sequence), m.Sessions, m.Seen.UnixMicro())
		if err != nil {
			return err
		}
	}
	if m := l.Members[by]; m != nil {
		if err := h.writeHeartbeat(ctx, m); err != nil {
			return err
		}
	}
	for _, server := range c.Gone {
		if _, err := h.conn.ExecContext(ctx, "DELETE FROM accounts WHERE server = ?", server); err != nil {
			return err
		}
	}
	for _, server := range c.Accounts {
		a := l.Accounts[server]
		_, err := h.conn.ExecContext(ctx, `INSERT INTO accounts (server, version, cap, grants) VALUES (?, ?, ?, ?)
ON CONFLICT (server) DO UPDATE SET version = excluded.version, cap = excluded.cap, grants = excluded.grants`,
			server, a.Version, a.Cap(), storage.EncodeGrants(a.Grants))
		if err != nil {
			return err
		}
	}
	return nil
}
