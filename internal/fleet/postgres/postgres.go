// Package postgres keeps the ledger of a fleet in a PostgreSQL database, in the tables fleet* of the schema wsbouncer, which
// `wsbouncer migrate` makes (internal/config/postgres/migrations).
//
// An exchange in which nothing changes, and no other proxy has changed anything since the proxy's last answer, is one short statement
// (heartbeatStatement). If one has, another (readStatement) counts the heartbeat and reads what has changed. A further one (writeStatement)
// writes what the protocol has changed, if no other proxy has written since. If one has, the exchange is carried out again in a transaction that
// locks the ledger's head.
//
// A commit that the server may forget is never answered for: changes are committed with synchronous_commit=local whatever the database's
// default is, and a server that has crashed or failed over is another process, which the protocol tells by the identity. Heartbeats may be
// forgotten.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
	"github.com/wsbouncer/wsbouncer/internal/ground/pgconnect"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Options are what a store is made with.
type Options struct {
	Log *slog.Logger // may be nil
}

const (
	// application is the name of the store's connections in pg_stat_activity.
	application = "wsbouncer fleet"
	// callTimeout is how long a call may take if its context has no deadline.
	callTimeout = 5 * time.Second
	// contention is for how long exchanges lock the ledger after one failed without the lock.
	contention = 2 * time.Second
	// connections is how many a store has at most, apart from the one that listens.
	connections = 2
)

// Store is a [fleet.Store].
type Store struct {
	pool   *pgxpool.Pool   // static
	config *pgx.ConnConfig // static: of the connection that listens
	log    *slog.Logger    // static

	firstRetry, timeout time.Duration // static

	closed    atomic.Bool
	listeners sync.WaitGroup
	end       context.CancelFunc // ends the listeners
	ended     context.Context    //nolint:containedctx // until Close

	notifies  atomic.Bool   // announcements arrive
	failing   atomic.Bool   // the last exchange failed
	recovered chan struct{} // of size one: exchanges no longer fail
	conflict  atomic.Int64  // when another proxy last wrote between the statements of an exchange: of time.Time.UnixNano

	self atomic.Pointer[fleet.ID] // the proxy that made the last exchange; nil before

	mu      sync.Mutex
	members cachedMembers // guarded by mu
	rest    rest          // guarded by mu
}

var _ fleet.Store = (*Store)(nil)

var errClosed = errors.New("the store of grants is closed")

// Open returns the store in a database that is given as a URL (postgres://user@host/name) or as settings (host=... user=...), as for
// psql. If that names several hosts, the store uses the one that can be written, whatever its target_session_attrs says. Open does not
// connect: the first use does. Its error never shows a password.
func Open(dsn string, o Options) (*Store, error) { return open(dsn, o, nil) }

// open is Open with a tracer of statements, which may be nil.
func open(dsn string, o Options, tracer pgx.QueryTracer) (*Store, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, pgconnect.ErrDSN
	}
	// The name tells its connections from those of the configuration, so it is the same whatever the user has set.
	delete(c.ConnConfig.RuntimeParams, "application_name")
	pgconnect.Settle(c.ConnConfig, application)
	c.ConnConfig.ValidateConnect = writable // whatever target_session_attrs says: that may be about the configuration, which is only read
	c.ConnConfig.Tracer = tracer
	if c.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // not behind a connection pooler
		c.AfterConnect = prepare
	}
	c.MinConns, c.MinIdleConns, c.MaxConns = 0, 0, connections
	// Trying out a connection first would double what an exchange of a ledger at rest costs. One that fails is repeated soon.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	s := &Store{config: c.ConnConfig.Copy(), log: o.Log, firstRetry: firstRetry, timeout: callTimeout, recovered: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	s.ended, s.end = context.WithCancel(context.Background())
	return s, nil
}

// errReadOnly says that a server takes no writes.
var errReadOnly = errors.New("the database server takes no writes: it is a standby, or default_transaction_read_only is on")

// writable returns an error if the server at the other end of a connection takes no writes.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	answer := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if answer.Err != nil {
		return answer.Err
	}
	if string(answer.Rows[0][0]) == "on" {
		return errReadOnly
	}
	return nil
}

// call runs one call of the store, with a time limit, and translates its error.
func (s *Store) call(ctx context.Context, f func(context.Context) error) error {
	if s.closed.Load() {
		return errClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := f(ctx)
	if err != nil && s.closed.Load() {
		return errClosed
	}
	return s.explain(err)
}

// errNoHead says that the table of the ledger's head was emptied.
var errNoHead = fmt.Errorf("%w: the table wsbouncer.fleet has no row", fleet.ErrNoTables)

// explain translates an error for an operator. After one that says that the server is not the one to write to, the store connects anew,
// maybe to another host.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch failure.Code {
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: it needs SELECT, INSERT, UPDATE and DELETE on the tables wsbouncer.fleet*: %w", fleet.ErrNoRights, err)
		case "3F000", "42P01": // invalid_schema_name, undefined_table
			return fmt.Errorf("%w: run wsbouncer migrate: %w", fleet.ErrNoTables, err)
		case "25006": // read_only_sql_transaction
			s.pool.Reset()
			return fmt.Errorf("%w: %w: %w", fleet.ErrUnreachable, errReadOnly, err)
		case "55P03", "57014": // lock_not_available, query_canceled
			return fmt.Errorf("%w: it does not answer in time: %w", fleet.ErrUnreachable, err)
		}
	}
	if pooled := pgconnect.Pooled(err); pooled != nil {
		return fmt.Errorf("%w: %w", fleet.ErrUnreachable, pooled)
	}
	switch {
	case errors.Is(err, errReadOnly):
		s.pool.Reset()
		return fmt.Errorf("%w: %w", fleet.ErrUnreachable, err)
	case errors.Is(err, context.DeadlineExceeded), pgconnect.IsOutage(err):
		return fmt.Errorf("%w: %w", fleet.ErrUnreachable, pgconnect.Plain(err))
	}
	return err
}

// Exchange implements [fleet.Store].
func (s *Store) Exchange(ctx context.Context, r *fleet.Report) (answer *fleet.Answer, err error) {
	if err := storage.CheckReport(r); err != nil {
		return nil, err
	}
	self := r.ID
	s.self.Store(&self)
	err = s.call(ctx, func(ctx context.Context) error {
		answer, err = s.exchange(ctx, r)
		return err
	})
	if s.failing.Swap(err != nil) && err == nil {
		tasks.Wake(s.recovered)
	}
	return answer, err
}

func (s *Store) exchange(ctx context.Context, r *fleet.Report) (*fleet.Answer, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	e := &exchange{store: s, report: r, fresh: storage.NewEpoch(), sequenceBefore: notCounted}
	answer, counted, err := s.heartbeat(ctx, &attempt{conn: conn.Conn()}, r)
	if answer != nil || err != nil {
		return answer, err
	}
	if counted {
		e.sequenceBefore = int64(r.Sequence) - 1
	}
	for _, locks := range []bool{false, true} {
		// Where many write at once, as when all join, attempts without the lock would fail.
		if !locks && !r.Quiet() && (r.Full || time.Since(time.Unix(0, s.conflict.Load())) < contention) {
			continue
		}
		answer, ok, err := e.run(ctx, &attempt{conn: conn.Conn(), locks: locks})
		if errors.Is(err, errNoHead) {
			if _, err = conn.Exec(ctx, headStatement); err == nil {
				answer, ok, err = e.run(ctx, &attempt{conn: conn.Conn(), locks: locks})
			}
		}
		if ok {
			s.learn(r, answer)
		}
		if ok || err != nil {
			return answer, err
		}
		s.conflict.Store(time.Now().UnixNano())
	}
	// No other proxy writes while the head is locked.
	return nil, fmt.Errorf("%w: it has changed during an exchange", fleet.ErrUnreachable)
}

// exchange is one exchange, which may take more than one attempt.
type exchange struct {
	store          *Store
	report         *fleet.Report
	fresh          fleet.Epoch
	sequenceBefore int64 // the proxy's sequence number before an earlier attempt has counted its heartbeat; notCounted if none has
}

const notCounted = -2

// run makes an attempt. It returns false if another proxy has written between its statements.
func (e *exchange) run(ctx context.Context, a *attempt) (*fleet.Answer, bool, error) {
	defer a.end(ctx)
	r := e.report
	want := request{report: r, countHeartbeat: r.Quiet() && !a.locks, everything: r.All()}
	for {
		l, err := e.store.load(ctx, a, &want)
		if err != nil {
			return nil, false, err
		}
		if self := l.ledger.Members[r.ID]; self != nil && e.sequenceBefore != notCounted && self.Sequence == r.Sequence {
			self.Sequence = uint64(e.sequenceBefore)
		}
		if l.counted {
			e.sequenceBefore = l.sequence
		}
		answer, changes := storage.Exchange(l.ledger, r, l.identity, e.fresh, l.at)
		switch {
		case !changes.Anything() && (e.sequenceBefore != notCounted || answer.Stale):
			return answer, true, nil
		case want.countHeartbeat: // there is more to it, which needs the ledger's history
			want.countHeartbeat = false
			continue
		}
		ok, err := e.store.write(ctx, a, l, changes, r.ID)
		return answer, ok, err
	}
}

// Forget implements [fleet.Store].
func (s *Store) Forget(ctx context.Context, id fleet.ID) error {
	return s.call(ctx, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		a := &attempt{conn: conn.Conn(), locks: true}
		defer a.end(ctx)
		l, err := s.load(ctx, a, &request{everything: true})
		if err != nil {
			return err
		}
		changes := storage.Forget(l.ledger, id, l.identity, storage.NewEpoch())
		if changes == nil {
			return fmt.Errorf("%w: %s", fleet.ErrUnknown, id)
		}
		ok, err := s.write(ctx, a, l, changes, "")
		if err == nil && !ok {
			err = fmt.Errorf("%w: it has changed meanwhile", fleet.ErrUnreachable)
		}
		return err
	})
}

// Ledger implements [fleet.Store].
func (s *Store) Ledger(ctx context.Context) (ledger *fleet.Ledger, err error) {
	err = s.call(ctx, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		l, err := s.load(ctx, &attempt{conn: conn.Conn()}, &request{everything: true})
		if err == nil {
			ledger = l.ledger
		}
		return err
	})
	return ledger, err
}

// Close implements [fleet.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.end()
	s.listeners.Wait()
	s.pool.Close()
	return nil
}

// mostHeartbeats returns how many exchanges in a row may be nothing but heartbeats. After them, the proxy reads how many sessions the others have, which costs the
// more, the more of them there are: about every members/4 seconds.
func mostHeartbeats(members int) int {
	return max(3, int(time.Duration(members)*time.Second/4/fleet.Late(members)))
}

// rest is what the last answer had of a ledger at rest. While the ledger has that version in that epoch, it is still true: each change of
// it, of members or of what is frozen makes another version.
type rest struct {
	valid      bool // the ledger is not frozen, and settled
	epoch      fleet.Epoch
	version    int64
	about      fleet.Member // what the ledger knows of the proxy
	heartbeats int          // since that answer
}

// learn notes what an answer had.
func (s *Store) learn(r *fleet.Report, a *fleet.Answer) {
	about := storage.Lasting(&r.About)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = rest{
		valid: !a.Frozen && a.Settled && !a.Again && !a.Stale && !r.Leaves,
		epoch: a.Epoch, version: a.Version, about: about,
	}
}

// heartbeat tries to carry out an exchange by counting a heartbeat. It returns no answer if there is more to do; counted: the heartbeat was counted then.
func (s *Store) heartbeat(ctx context.Context, a *attempt, r *fleet.Report) (answer *fleet.Answer, counted bool, err error) {
	s.mu.Lock()
	s.rest.heartbeats++
	last, members := s.rest, len(s.members.byID)
	s.mu.Unlock()
	if !last.valid || !r.Quiet() || r.Epoch != last.epoch || r.Version != last.version || last.heartbeats > mostHeartbeats(members) || storage.Lasting(&r.About) != last.about {
		return nil, false, nil
	}
	var all bool
	late := fleet.Late(members).Milliseconds()
	err = a.heartbeat(ctx, []any{string(r.ID), int64(r.Sequence), r.About.Sessions, string(r.Epoch), r.Version, late}, []any{&all})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil || !all:
		return nil, err == nil, err
	}
	return &fleet.Answer{Epoch: last.epoch, Version: last.version, Settled: true}, true, nil
}

// Check returns what keeps the database's user from using the ledger; nil for nothing. It changes nothing.
func (s *Store) Check(ctx context.Context) error {
	var missing *string
	err := s.call(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT string_agg(t.relname || ' (' || p.privilege || ')', ', ' ORDER BY t.relname, p.privilege)
			FROM pg_class AS t CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (privilege)
			WHERE t.relnamespace = 'wsbouncer'::regnamespace AND t.relkind = 'r'
			AND (t.relname = 'fleet' AND p.privilege IN ('SELECT', 'UPDATE') OR t.relname IN ('fleet_members', 'fleet_beats', 'fleet_accounts'))
			AND NOT has_table_privilege(t.oid, p.privilege)`).Scan(&missing)
	})
	if err == nil && missing != nil {
		return fmt.Errorf("%w: it lacks rights to %s", fleet.ErrNoRights, *missing)
	}
	return err
}
