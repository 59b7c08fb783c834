//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

const gpu = "ws://gpu-1:2700"

// proxy makes exchanges by hand.
type proxy struct {
	t        testing.TB
	store    *Store
	id       fleet.ID
	sequence uint64
	epoch    fleet.Epoch
	version  int64
}

func newProxy(t testing.TB, dsn string, id fleet.ID) *proxy {
	t.Helper()
	return &proxy{t: t, store: openStore(t, dsn), id: id}
}

func (p *proxy) report(full, settle bool, c *fleet.Claim) (*fleet.Answer, error) {
	p.sequence++
	r := &fleet.Report{
		ID: p.id, Sequence: p.sequence, Epoch: p.epoch, Version: p.version, Full: full, Settle: settle,
		About: fleet.Member{Name: string(p.id), State: fleet.Serving},
	}
	if c != nil {
		r.Claims = map[string]fleet.Claim{gpu: *c}
	}
	a, err := p.store.Exchange(p.t.Context(), r)
	if err == nil {
		p.epoch, p.version = a.Epoch, a.Version
	}
	return a, err
}

// claim says that the proxy holds and needs places, and returns what it has then.
func (p *proxy) claim(full, settle bool, holds, needs int) (*fleet.Answer, int) {
	p.t.Helper()
	a, err := p.report(full, settle, &fleet.Claim{Cap: 8, Holds: holds, Needs: needs, Wants: needs})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, account := range a.Accounts {
		for _, g := range account.Grants {
			if g.Proxy == p.id {
				return a, g.Places
			}
		}
	}
	return a, 0
}

// TestSecondLine: the database itself refuses more places than a server has, beyond what proxies hold already.
func TestSecondLine(t *testing.T) {
	dsn := migrated(t)
	p := newProxy(t, dsn, "a")
	p.claim(true, false, 0, 8)
	for _, c := range []struct {
		statement string
		refused   bool
	}{
		{`UPDATE wsbouncer.fleet_accounts SET granted = 9, grants = '[["a",8,8,8],["b",1,8,0]]'`, true},
		{`UPDATE wsbouncer.fleet_accounts SET granted = 9, grants = '[["a",9,8,8]]'`, true},
		{`INSERT INTO wsbouncer.fleet_accounts VALUES ('x', 1, 8, 9, '[["a",5,8,0],["b",4,8,0]]')`, true},
		{`UPDATE wsbouncer.fleet_accounts SET cap = 4`, false},                                             // lowered below what is granted
		{`UPDATE wsbouncer.fleet_accounts SET granted = 11, grants = '[["a",8,4,8],["b",3,4,3]]'`, false},  // one that was forgotten comes back
		{`UPDATE wsbouncer.fleet_accounts SET granted = 12, grants = '[["a",8,4,8],["b",4,4,3]]'`, true},   // and gets more than it holds
		{`UPDATE wsbouncer.fleet_accounts SET granted = 4, grants = '[["a",4,4,4],["b",0,4,0]]'`, false},   // sessions end
		{`INSERT INTO wsbouncer.fleet_accounts VALUES ('x', 1, 8, 8, '[["a",4,8,0],["b",4,8,0]]')`, false}, // the cap exactly
	} {
		err := pgtest.Execute(t.Context(), dsn, c.statement)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "would be granted") {
			t.Errorf("%s: %v", c.statement, err)
		}
	}
}

// TestRights: with the rights that docs/reference/configuration.md gives the proxy's role it works, with fewer it says what it needs.
func TestRights(t *testing.T) {
	name := newDatabase(t, "migrated")
	admin := server.DSN(name)
	role := "proxy_" + name
	query(t, admin, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	p := newProxy(t, server.URL(role, "secret", name), "a")
	try := func(what string, is error) {
		t.Helper()
		_, err := p.report(true, false, &fleet.Claim{Cap: 8, Needs: 1, Wants: 1})
		if !errors.Is(err, is) || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	try("without any right", fleet.ErrNoRights)
	query(t, admin, "GRANT USAGE ON SCHEMA wsbouncer TO "+role, "GRANT SELECT ON ALL TABLES IN SCHEMA wsbouncer TO "+role)
	try("with the right to read", fleet.ErrNoRights)
	query(t, admin, "GRANT INSERT, UPDATE, DELETE ON wsbouncer.fleet, wsbouncer.fleet_members, wsbouncer.fleet_beats, wsbouncer.fleet_accounts TO "+role)
	try("with the rights of the handbook", nil)
	p.epoch = ""
	if err := p.store.Forget(t.Context(), "a"); err != nil {
		t.Errorf("forgetting: %v", err)
	}
	if left := text(t, admin, "SELECT count(*)::text FROM wsbouncer.fleet_beats"); left != "0" {
		t.Errorf("%s heartbeats are left of those that were forgotten", left)
	}
	if text(t, admin, "SELECT identity FROM wsbouncer.fleet") == "lost" {
		t.Error("the store's own deletion makes the ledger lost")
	}
	p.id = "b"
	try("another proxy", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	changed := p.store.Changed(ctx)
	for announced := false; !announced; {
		query(t, admin, "NOTIFY "+channel+", '"+everyone+"'")
		select {
		case _, listens := <-changed:
			if !listens {
				t.Fatal("it cannot listen")
			}
			announced = true
		case <-time.After(10 * time.Millisecond): // it does not listen yet
		}
	}
}

func TestNoTables(t *testing.T) {
	dsn := server.DSN(newDatabase(t, "template1"))
	p := newProxy(t, dsn, "a")
	if _, err := p.report(true, false, nil); !errors.Is(err, fleet.ErrNoTables) || !strings.Contains(err.Error(), "run wsbouncer migrate") {
		t.Errorf("an empty database: %v", err)
	}
	if _, err := p.store.Ledger(t.Context()); !errors.Is(err, fleet.ErrNoTables) {
		t.Errorf("its ledger: %v", err)
	}
	migrate(t, dsn)
	if _, err := p.report(true, false, nil); err != nil {
		t.Errorf("after it was migrated: %v", err)
	}
}

// TestConfigurationIsNotWoken: exchanges are no change of the configuration.
func TestConfigurationIsNotWoken(t *testing.T) {
	dsn := migrated(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "LISTEN wsbouncer"); err != nil {
		t.Fatal(err)
	}
	p, q := newProxy(t, dsn, "a"), newProxy(t, dsn, "b")
	p.claim(true, false, 0, 1)
	q.claim(true, false, 0, 4)
	p.claim(false, false, 2, 2)
	query(t, dsn, "NOTIFY wsbouncer, 'last'")
	n, err := conn.WaitForNotification(t.Context())
	if err != nil || n.Payload != "last" {
		t.Errorf("followers of the configuration heard %+v, %v", n, err)
	}
	var revision, changes int
	if err := conn.QueryRow(t.Context(), "SELECT revision, (SELECT count(*) FROM wsbouncer.changes) FROM wsbouncer.head").Scan(&revision, &changes); err != nil || revision != 0 || changes != 0 {
		t.Errorf("the configuration has version %d and %d changes, %v", revision, changes, err)
	}
}

// TestRestored: the tables are restored from a dump, or some or all of them emptied, while proxies run. No proxy gets places that another has.
func TestRestored(t *testing.T) {
	const all = "wsbouncer.fleet, wsbouncer.fleet_members, wsbouncer.fleet_beats, wsbouncer.fleet_accounts"
	for _, test := range []struct {
		name       string
		statements []string
	}{
		{"an earlier state", []string{
			"TRUNCATE " + all, "INSERT INTO wsbouncer.fleet SELECT * FROM dump.head", "INSERT INTO wsbouncer.fleet_members SELECT * FROM dump.members",
			"INSERT INTO wsbouncer.fleet_beats SELECT * FROM dump.beats", "INSERT INTO wsbouncer.fleet_accounts SELECT * FROM dump.accounts",
		}},
		{"all is empty", []string{"TRUNCATE " + all}},
		{"all but the head is empty", []string{"TRUNCATE wsbouncer.fleet_members, wsbouncer.fleet_beats, wsbouncer.fleet_accounts"}},
		{"no head", []string{"TRUNCATE wsbouncer.fleet"}},
		{"no members", []string{"TRUNCATE wsbouncer.fleet_members"}},
		{"no heartbeats", []string{"TRUNCATE wsbouncer.fleet_beats"}},
		{"no accounts", []string{"TRUNCATE wsbouncer.fleet_accounts"}},
		{"the other and its places are deleted", []string{"DELETE FROM wsbouncer.fleet_members WHERE id = 'b'", "DELETE FROM wsbouncer.fleet_accounts"}},
		{"an account is deleted", []string{"DELETE FROM wsbouncer.fleet_accounts WHERE server = '" + gpu + "'"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dsn := migrated(t)
			p, q := newProxy(t, dsn, "a"), newProxy(t, dsn, "b")
			p.claim(true, false, 0, 0)
			q.claim(true, false, 0, 0)
			p.claim(false, false, 0, 0)
			query(t, dsn, "CREATE SCHEMA dump", "CREATE TABLE dump.head AS TABLE wsbouncer.fleet", "CREATE TABLE dump.members AS TABLE wsbouncer.fleet_members",
				"CREATE TABLE dump.beats AS TABLE wsbouncer.fleet_beats", "CREATE TABLE dump.accounts AS TABLE wsbouncer.fleet_accounts")
			_, n := q.claim(false, false, 0, 8)
			p.claim(false, false, 0, 0)
			if _, n = q.claim(false, false, n, 8); n != 8 {
				t.Fatalf("b got %d places", n)
			}
			p.claim(false, false, 0, 0)
			query(t, dsn, test.statements...)

			former := p.epoch
			if a, n := p.claim(false, false, 0, 8); n != 0 || !a.Again || !a.Lost || a.Epoch == former {
				t.Errorf("a has %d places: %+v", n, a)
			}
			others := []fleet.Member{{ID: "b", Name: "b"}}
			a, err := p.store.Exchange(t.Context(), &fleet.Report{
				ID: p.id, Sequence: 100, Epoch: p.epoch, Version: p.version, Full: true, Others: others,
				Claims: map[string]fleet.Claim{gpu: {Cap: 8, Needs: 8, Wants: 8}}, About: fleet.Member{Name: "a", State: fleet.Serving},
			})
			if err != nil || !slices.Equal(a.Missing, []fleet.ID{"b"}) {
				t.Fatalf("the ledger does not wait for b: %+v, %v", a, err)
			}
			p.sequence = 100
			if a, n := p.claim(false, true, 0, 8); n != 0 || !a.Frozen {
				t.Errorf("a has %d places: %+v", n, a)
			}
			if a, _ := q.claim(false, false, 8, 8); !a.Again {
				t.Errorf("b is not asked what it holds: %+v", a)
			}
			if a, n := q.claim(true, false, 8, 8); n != 8 || a.Frozen {
				t.Errorf("b has %d places: %+v", n, a)
			}
			if left := text(t, dsn, "SELECT string_agg(id, '' ORDER BY id) FROM wsbouncer.fleet_beats"); left != "ab" {
				t.Errorf("there are heartbeats of %s", left)
			}
		})
	}
}

// TestLocked: a client that keeps the ledger locked makes exchanges that change something fail, not hang; heartbeats continue.
func TestLocked(t *testing.T) {
	dsn := migrated(t)
	p := newProxy(t, dsn, "a")
	p.claim(true, false, 0, 1)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range []string{"BEGIN", "SELECT FROM wsbouncer.fleet FOR UPDATE"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.report(false, false, nil); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	var before int64
	wstest.Eventually(t, "the server ends the wait before the call ends", func() bool { // a busy machine may be late for that
		_, _ = p.report(false, false, nil) // which connects anew if it has to
		before = p.store.pool.Stat().NewConnsCount()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &fleet.Report{ID: p.id, Sequence: 100, Epoch: p.epoch, Version: p.version, Claims: map[string]fleet.Claim{gpu: {Cap: 8, Holds: 2}}}
		_, err := p.store.Exchange(ctx, r)
		if !errors.Is(err, fleet.ErrUnreachable) {
			t.Errorf("a change: %v", err)
		}
		return strings.Contains(err.Error(), "lock timeout")
	})
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	p.sequence = 200
	if _, n := p.claim(false, false, 2, 2); n != 8 {
		t.Errorf("afterwards it has %d places", n)
	}
	if after := p.store.pool.Stat().NewConnsCount(); after != before {
		t.Errorf("waiting without success has cost a connection: %d became %d", before, after)
	}
}

// TestPasswords are not shown, whatever is wrong.
func TestPasswords(t *testing.T) {
	for _, dsn := range []string{
		"postgres://me:s3cret@127.0.0.1:1/x?connect_timeout=1", "postgres://me:s3cret@[::1/x", "postgres://me:s3:cr@et@host:port/x",
		"host=127.0.0.1 password='s3cret port=x", "s3cret",
	} {
		s, err := Open(dsn, Options{})
		if err == nil {
			_, err = s.Ledger(t.Context())
			if !errors.Is(err, fleet.ErrUnreachable) {
				t.Errorf("%s: %v", dsn, err)
			}
			_ = s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "et@host") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// TestDelayedReport: a report whose proxy has made a heartbeat between its two statements is not written, although a heartbeat changes nothing else.
func TestDelayedReport(t *testing.T) {
	dsn := migrated(t)
	p := newProxy(t, dsn, "a")
	p.claim(true, false, 0, 8)
	late := &fleet.Report{ID: p.id, Sequence: 50, Epoch: p.epoch, Version: p.version, Claims: map[string]fleet.Claim{gpu: {Cap: 8, Holds: 1, Needs: 1, Wants: 1}}}
	conn, err := p.store.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	a := &attempt{conn: conn.Conn()}
	l, err := p.store.load(t.Context(), a, &request{report: late})
	if err != nil {
		t.Fatal(err)
	}
	p.sequence = 60
	if _, err := p.report(false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, changes := storage.Exchange(l.ledger, late, l.identity, "fresh", l.at)
	if ok, err := p.store.write(t.Context(), a, l, changes, late.ID); ok || err != nil {
		t.Errorf("the delayed report was written: %v, %v", ok, err)
	}
	if _, n := p.claim(true, false, 8, 8); n != 8 {
		t.Errorf("it has %d places", n)
	}
}

// TestFirstEpochIsLost: a failover that loses all epochs leaves a ledger that looks unused. No proxy gets places from it before a lease time has
// passed. The server that made the tables grants at once.
func TestFirstEpochIsLost(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	query(t, server.DSN("postgres"), "CREATE DATABASE "+name)
	migrate(t, server.DSN(name))
	standby := server.DSN(newDatabase(t, name)) // what it has without the commits that follow
	if a, n := newProxy(t, server.DSN(name), "a").claim(true, false, 0, 8); n != 8 || a.Frozen {
		t.Errorf("the server that made the tables granted %d of 8 places: %+v", n, a)
	}
	place(standby).Restart(t)
	b := newProxy(t, standby, "b")
	a, n := b.claim(true, false, 0, 8)
	if n != 0 || !a.Frozen || !a.Again {
		t.Errorf("another server granted %d places at once: %+v", n, a)
	}
	if a, n = b.claim(true, false, 0, 8); n != 0 || !a.Frozen {
		t.Errorf("another server granted %d places to one that asked again: %+v", n, a)
	}
	if a, n = b.claim(false, true, 0, 8); n != 8 || a.Frozen {
		t.Errorf("after a lease time it granted %d of 8 places: %+v", n, a)
	}
}

// TestFailover: a standby that misses the last commits is promoted. In the new epoch no proxy gets anything before all have reported what they hold, and
// the sum stays within the cap.
func TestFailover(t *testing.T) {
	if server == nil {
		t.Skip(pgtest.ErrNone)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.StartTimeout)
	defer cancel()
	primary, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Remove()
	if err := primary.Start(ctx); err != nil {
		t.Fatal(err)
	}
	migrate(t, primary.DSN("postgres"))
	standby, err := primary.Standby(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Remove()
	if err := standby.Start(ctx); err != nil {
		t.Fatal(err)
	}
	dsn := fmt.Sprintf("host=%s,%s port=%d,%d user=%s dbname=postgres", standby.Directory, primary.Directory, standby.Port, primary.Port, pgtest.User)
	p, q := newProxy(t, dsn, "a"), newProxy(t, dsn, "b")
	p.claim(true, false, 0, 5) // it is alone, so it gets all
	q.claim(true, false, 0, 8)
	p.claim(false, false, 5, 5)
	if _, n := q.claim(false, false, 0, 8); n != 3 {
		t.Fatalf("b got %d of 3 places", n)
	}
	q.claim(false, false, 3, 8)
	former := p.epoch

	// From now on the standby hears of nothing.
	caughtUp(t, primary, standby)
	query(t, standby.DSN("postgres"), "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	for !isCut(t, primary) {
		time.Sleep(10 * time.Millisecond)
	}
	p.claim(false, false, 2, 2)
	if _, n := q.claim(false, false, 3, 8); n != 6 {
		t.Fatalf("b got %d places, not 6", n)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.report(false, false, nil); !errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("with nothing but a standby: %v", err)
	}
	query(t, standby.DSN("postgres"), "SELECT pg_promote(true, 300)")

	// What the standby has is a with 5, b with 3. A third one, which asks first, gets nothing, and a, who needs 5 again, neither.
	third := newProxy(t, dsn, "c")
	a, n := third.claim(true, false, 0, 8)
	if a.Again { // it made the epoch begin
		a, n = third.claim(true, false, 0, 8)
	}
	if !a.Frozen || n != 0 || a.Epoch == former || !slices.Equal(a.Missing, []fleet.ID{"a", "b"}) {
		t.Errorf("a new proxy: %+v", a)
	}
	a, _ = p.claim(false, false, 2, 5)
	if !a.Again || a.Epoch == former {
		t.Errorf("a, who knows the former epoch: %+v", a)
	}
	if a, n = p.claim(true, false, 2, 5); n != 2 || !a.Frozen {
		t.Errorf("a has %d places: %+v", n, a)
	}
	if a, n = p.claim(false, true, 2, 5); n != 2 || !a.Frozen || !slices.Equal(a.Missing, []fleet.ID{"b"}) {
		t.Errorf("a, after a lease time, has %d places: %+v", n, a)
	}
	for q.epoch == former { // its connection to the former server is broken
		if a, err := q.report(false, false, nil); err == nil && !a.Again || err != nil && !errors.Is(err, fleet.ErrUnreachable) {
			t.Fatalf("b, who knows the former epoch: %+v, %v", a, err)
		}
	}
	if a, n = q.claim(true, false, 6, 8); n != 6 || a.Frozen {
		t.Errorf("b has %d places: %+v", n, a)
	}
	if _, n = p.claim(false, false, 2, 5); n != 2 {
		t.Errorf("a has %d places, and b 6 of 8", n)
	}
	l, err := p.store.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Accounts[gpu]; len(l.Accounts) != 1 || a == nil || a.Granted() > 8 {
		t.Errorf("%+v", l.Accounts)
	}
}

// caughtUp waits until a standby has all of the primary's commits.
func caughtUp(t *testing.T, primary, standby *pgtest.Server) {
	t.Helper()
	lsn := one(t, primary, "SELECT pg_current_wal_lsn()::text")
	for one(t, standby, "SELECT (pg_last_wal_replay_lsn() >= '"+lsn+"')::text") != "true" {
		time.Sleep(10 * time.Millisecond)
	}
}

func isCut(t *testing.T, primary *pgtest.Server) bool {
	t.Helper()
	return one(t, primary, "SELECT count(*)::text FROM pg_stat_replication") == "0"
}

// one returns the only text of a query.
func one(t *testing.T, s *pgtest.Server, statement string) string {
	t.Helper()
	return text(t, s.DSN("postgres"), statement)
}

// text returns the only text of a query in a database.
func text(t *testing.T, dsn, statement string) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), statement).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPooler says what to do where a connection pooler, such as PgBouncer, gives each transaction another connection.
func TestPooler(t *testing.T) {
	s := openStore(t, "postgres://proxy@127.0.0.1:1/none") // which is never connected
	for _, code := range []string{"26000", "42P05"} {
		err := s.explain(&pgconn.PgError{Code: code, Message: `prepared statement "fleet_read" does not exist`})
		if !errors.Is(err, fleet.ErrUnreachable) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
