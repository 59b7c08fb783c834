package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
)

// identity tells one process of the database server from another: a server that was restarted, or a standby that was promoted, was
// started at another time. All users may ask for it; what only some may ask for would make proxies disagree.
const identity = `to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

// readStatement counts a heartbeat if $1 is true and the ledger is the one that the proxy knows, and reads the ledger as it was before: its
// head, the heartbeats of all members, what members say of themselves if that has changed, and the accounts that are wanted. A heartbeat needs no
// history of the ledger, and is committed without waiting for the disk.
//
// $1 whether to count a heartbeat, $2 the proxy, $3 its sequence number, $4 its sessions, $5 its epoch, $6 the tag of the members that are
// known, $7 the version after which accounts are wanted, $8 servers whose accounts are wanted in any case
const readStatement = `WITH head AS MATERIALIZED (
    SELECT *, ` + identity + ` AS server FROM wsbouncer.fleet
), heartbeat AS (
    UPDATE wsbouncer.fleet_beats AS b SET beats = b.beats + 1, sequence = $3, sessions = $4, seen = clock_timestamp()
    FROM head WHERE $1 AND b.id = $2 AND b.sequence < $3 AND head.identity = head.server AND head.epoch = $5
        AND set_config('synchronous_commit', 'off', true) <> ''
    RETURNING b.id
)
SELECT head.server, pg_is_in_recovery(), clock_timestamp(), EXISTS (SELECT FROM heartbeat),
    head.identity, head.epoch, CASE WHEN $1 THEN '[]' ELSE head.past::text END, CASE WHEN $1 THEN '[]' ELSE head.departed::text END, head.settled, head.version, head.revision, head.members_tag,
    b.ids, b.beats, b.sessions, b.seen, coalesce((SELECT sequence FROM wsbouncer.fleet_beats WHERE id = $2), -1),
    CASE WHEN head.members_tag <> $6 THEN
        (SELECT coalesce(json_agg(json_build_array(m.id, m.epoch, m.about::text)), '[]')::text FROM wsbouncer.fleet_members AS m) END,
    a.servers, a.versions, a.grants
FROM head, (
    SELECT array_agg(id) AS ids, array_agg(beats) AS beats, array_agg(sessions) AS sessions, array_agg(seen) AS seen
    FROM wsbouncer.fleet_beats
) AS b, LATERAL (
    SELECT array_agg(server) AS servers, array_agg(version) AS versions, array_agg(grants::text) AS grants
    FROM wsbouncer.fleet_accounts WHERE (head.version > $7 OR cardinality($8::text[]) > 0) AND (version > $7 OR server = ANY ($8) OR granted = 0 AND grants::text = '[]')
) AS a`

// heartbeatStatement counts a heartbeat if nothing has changed since the proxy's last answer, and reports whether all other members have been seen
// lately: no longer ago than [fleet.Late], so that the reading of heartbeats that follows otherwise begins before [fleet.Unseen] ends. It
// returns no row if something has changed. It is far cheaper than readStatement, and in a fleet at rest nearly all exchanges are it. One that
// was seen in the future, since the server's clock was put back, has not been seen.
//
// $1 the proxy, $2 its sequence number, $3 its sessions, $4 its epoch, $5 its version, $6 after how many milliseconds a proxy is late
const heartbeatStatement = `UPDATE wsbouncer.fleet_beats AS b SET beats = b.beats + 1, sequence = $2, sessions = $3, seen = clock_timestamp()
FROM wsbouncer.fleet AS head
WHERE b.id = $1 AND b.sequence < $2 AND head.epoch = $4 AND head.version = $5 AND head.identity = ` + identity + `
    AND set_config('synchronous_commit', 'off', true) <> ''
RETURNING NOT EXISTS (SELECT FROM wsbouncer.fleet_beats AS o
    WHERE o.id <> b.id AND (o.seen < statement_timestamp() - $6 * interval '1 ms' OR o.seen > statement_timestamp()))`

// writeStatement writes what has changed, if no other proxy has written since readStatement has read, or is writing. First it locks the
// ledger's head, then the proxy's own row, in this order always. It returns whether it has written.
//
// $1 revision, $2 identity of the server, $3 the proxy, $4 its sequence number before, or -1 if it has none; $5 ... $9 the new head;
// $10 whether members have changed, $11 the tag that they get then, $12 those that are new or differ, $13 those that are gone; $14 ... $16 the
// proxy's heartbeat, $17 whether it has one; $18 ... $21 and $27 accounts, $22 servers without one; $23 what the
// others are sent, or nothing; $24 0 if only the heartbeat is written, otherwise 1; $25 departed, of the head; $26 how long to wait for
// a lock, in milliseconds
const writeStatement = `WITH settings AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'local', true), set_config('lock_timeout', $26, true)
), head AS MATERIALIZED (
    SELECT FROM wsbouncer.fleet, settings
    WHERE revision = $1 AND ` + identity + ` = $2 FOR UPDATE OF fleet SKIP LOCKED
), own AS MATERIALIZED (
    SELECT sequence FROM wsbouncer.fleet_beats WHERE EXISTS (SELECT FROM head) AND id = $3 FOR UPDATE
), ok AS MATERIALIZED (
    SELECT FROM head WHERE coalesce((SELECT sequence FROM own), -1) = $4
), ledger AS (
    UPDATE wsbouncer.fleet SET identity = $5, epoch = $6, past = $7::text::json, departed = $25::text::json, settled = $8, version = $9, revision = revision + $24,
        members_tag = CASE WHEN $10 THEN $11 ELSE members_tag END
    FROM ok
), members AS (
    INSERT INTO wsbouncer.fleet_members (id, epoch, about) SELECT m.id, m.epoch, m.about FROM ok,
        json_to_recordset($12::json) AS m (id text, epoch text, about json)
    ON CONFLICT (id) DO UPDATE SET epoch = EXCLUDED.epoch, about = EXCLUDED.about
), removed AS (
    DELETE FROM wsbouncer.fleet_members USING ok WHERE id = ANY ($13)
), silent AS (
    DELETE FROM wsbouncer.fleet_beats USING ok WHERE id = ANY ($13)
), heartbeat AS (
    INSERT INTO wsbouncer.fleet_beats (id, beats, sequence, sessions, seen) SELECT $3, $14, $15, $16, clock_timestamp() FROM ok WHERE $17
    ON CONFLICT (id) DO UPDATE SET beats = EXCLUDED.beats, sequence = EXCLUDED.sequence, sessions = EXCLUDED.sessions, seen = EXCLUDED.seen
), accounts AS (
    INSERT INTO wsbouncer.fleet_accounts (server, version, cap, granted, grants)
    SELECT a.server, a.version, a.cap, a.granted, a.grants::json FROM ok,
        unnest($18::text[], $19::bigint[], $20::integer[], $27::integer[], $21::text[]) AS a (server, version, cap, granted, grants)
    ON CONFLICT (server) DO UPDATE SET version = EXCLUDED.version, cap = EXCLUDED.cap, granted = EXCLUDED.granted, grants = EXCLUDED.grants
), gone AS (
    DELETE FROM wsbouncer.fleet_accounts USING ok WHERE server = ANY ($22)
)
SELECT EXISTS (SELECT FROM ok), (SELECT pg_notify('` + channel + `', $23)::text FROM ok WHERE $23 <> '')`

// headStatement writes a head instead of one that was deleted. Its identity says that a ledger was lost, so that the first epoch
// begins frozen.
const headStatement = `INSERT INTO wsbouncer.fleet (identity, epoch, past, departed, settled, version, revision, members_tag)
VALUES ('lost', '', '[]', '[]', false, 0, 0, 'lost') ON CONFLICT DO NOTHING`

// lockStatement locks the ledger's head. $1 is how long to wait for it, and $2 how long the transaction may do nothing, and how long the proxy may
// leave what it is sent, in milliseconds: a server that waits for the proxy to read its answer is not idle.
const lockStatement = `WITH settings AS MATERIALIZED (
    SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true), set_config('tcp_user_timeout', $2, true)
)
SELECT FROM wsbouncer.fleet, settings FOR UPDATE OF fleet`

// request is what to read.
type request struct {
	report         *fleet.Report // nil for none
	countHeartbeat bool          // count the report's heartbeat, and read no history
	everything     bool          // all accounts
}

// loaded is a ledger as it was read.
type loaded struct {
	ledger   *fleet.Ledger
	revision int64
	sequence int64  // of the proxy's own row; -1 if there is none
	identity string // of the database process
	at       time.Time
	counted  bool // the proxy's heartbeat was counted, after what was read
}

// cachedMembers are members as they were when they had a tag, without what each exchange may change. They are not changed.
type cachedMembers struct {
	tag  string
	byID map[fleet.ID]*fleet.Member
}

// load reads the ledger.
func (s *Store) load(ctx context.Context, a *attempt, r *request) (*loaded, error) {
	s.mu.Lock()
	known := s.members
	s.mu.Unlock()
	report := r.report
	if report == nil {
		report = new(fleet.Report)
	}
	after := report.Version
	if r.everything {
		after = -1
	}
	l := &loaded{ledger: storage.NewLedger()}
	var (
		head             = l.ledger
		isStandby        bool
		epoch, tag       string
		past, departed   string
		ids              []string
		beats            []int64
		sessions         []int32
		seen             []time.Time
		members          *string
		servers, grants  []string
		versions         []int64
		serversInAnyCase = slices.Sorted(maps.Keys(report.Claims))
	)
	err := a.read(ctx, []any{
		r.countHeartbeat, string(report.ID), int64(report.Sequence), report.About.Sessions, string(report.Epoch),
		known.tag, after, serversInAnyCase,
	}, []any{
		&l.identity, &isStandby, &l.at, &l.counted, &head.Identity, &epoch, &past, &departed, &head.Settled, &head.Version, &l.revision, &tag,
		&ids, &beats, &sessions, &seen, &l.sequence, &members, &servers, &versions, &grants,
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errNoHead
	case err != nil:
		return nil, err
	case isStandby:
		return nil, errReadOnly
	}
	head.Epoch = fleet.Epoch(epoch)
	if err := storage.DecodeHistory(head, past, departed); err != nil {
		return nil, err
	}
	if members != nil {
		if known, err = decodeMembers(tag, *members); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.members = known
		s.mu.Unlock()
	}
	for i, id := range ids {
		m := known.byID[fleet.ID(id)]
		if m == nil {
			continue
		}
		copied := *m
		copied.Heartbeats, copied.Sessions, copied.Seen = uint64(beats[i]), int(sessions[i]), seen[i]
		if copied.ID == report.ID {
			copied.Sequence = uint64(l.sequence)
		}
		head.Members[copied.ID] = &copied
	}
	for id, m := range known.byID { // without a heartbeat it was written by hand; of itself a proxy knows that its heartbeat was lost
		if head.Members[id] == nil && id != report.ID {
			head.Members[id] = new(*m)
		}
	}
	for i, server := range servers {
		account := &fleet.Account{Server: server, Version: versions[i]}
		if account.Grants, err = storage.DecodeGrants(server, grants[i]); err != nil {
			return nil, err
		}
		head.Accounts[server] = account
	}
	return l, nil
}

func decodeMembers(tag, text string) (cachedMembers, error) {
	var rows [][3]string
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return cachedMembers{}, fmt.Errorf("the ledger's members: %w", err)
	}
	c := cachedMembers{tag: tag, byID: make(map[fleet.ID]*fleet.Member, len(rows))}
	for _, row := range rows {
		m, err := storage.DecodeMember(fleet.ID(row[0]), fleet.Epoch(row[1]), row[2])
		if err != nil {
			return cachedMembers{}, err
		}
		c.byID[m.ID] = m
	}
	return c, nil
}

// memberRow is a row of fleet_members.
type memberRow struct {
	ID    fleet.ID        `json:"id"`
	Epoch fleet.Epoch     `json:"epoch"`
	About json.RawMessage `json:"about"`
}

// write writes what has changed since the ledger was read. It returns false if it has written nothing, because another proxy has
// written meanwhile. by is the proxy whose exchange it is, if it is one.
func (s *Store) write(ctx context.Context, a *attempt, l *loaded, c *storage.Changes, by fleet.ID) (ok bool, err error) {
	after := c.After
	past, departed := storage.EncodeHistory(after)
	members := make([]memberRow, 0, len(c.Members))
	for _, id := range c.Members {
		m := after.Members[id]
		members = append(members, memberRow{ID: id, Epoch: m.Epoch, About: json.RawMessage(storage.EncodeMember(m))})
	}
	membersText, err := json.Marshal(members)
	if err != nil {
		return false, err
	}
	var self fleet.Member
	if m := after.Members[by]; m != nil {
		self = *m
	}
	servers, versions, caps, grants := make([]string, 0, len(c.Accounts)), make([]int64, 0, len(c.Accounts)), make([]int32, 0, len(c.Accounts)), make([]string, 0, len(c.Accounts))
	granted := make([]int32, 0, len(c.Accounts))
	for _, server := range c.Accounts {
		account := after.Accounts[server]
		servers, versions = append(servers, server), append(versions, account.Version)
		granted = append(granted, int32(account.Granted()))
		caps, grants = append(caps, int32(account.Cap())), append(grants, storage.EncodeGrants(account.Grants))
	}
	removed := make([]string, 0, len(c.Removed))
	for _, id := range c.Removed {
		removed = append(removed, string(id))
	}
	gone := c.Gone
	if gone == nil {
		gone = []string{}
	}
	revision := 0
	if c.Anything() {
		revision = 1
	}
	err = a.write(ctx, []any{
		l.revision, l.identity, string(by), l.sequence,
		after.Identity, string(after.Epoch), past, after.Settled, after.Version,
		len(c.Members)+len(c.Removed) > 0, rand.Text(), string(membersText), removed,
		int64(self.Heartbeats), int64(self.Sequence), self.Sessions, self.ID != "",
		servers, versions, caps, grants, gone, payload(c.Woken(by)), revision, departed, lockTimeout(ctx), granted,
	}, []any{&ok, nil})
	return ok, err
}

// attempt runs the statements of an exchange: each by itself, or all in one transaction that has locked the ledger's head. In both cases
// each of them takes one trip to the server.
type attempt struct {
	conn  *pgx.Conn
	locks bool
}

// prepared are the names of the statements that a connection prepares once. The driver's own cache would prepare them anew after an error,
// such as a lock that was not free in time.
var prepared = map[string]string{
	heartbeatStatement: "fleet_heartbeat", readStatement: "fleet_read", lockStatement: "fleet_lock", writeStatement: "fleet_write",
	beginStatement: "fleet_begin", commitStatement: "fleet_commit",
}

const (
	beginStatement  = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	commitStatement = "COMMIT"
)

// session has the settings of a connection. Its statements are the same all the time. They may wait for a lock longer than an administrator
// may allow the statements of applications: they have time limits of their own. The server would compile a statement that it takes for a
// costly one, which takes far longer than to carry it out.
const session = "SET plan_cache_mode = force_generic_plan; SET statement_timeout = 0; SET jit = off"

// prepare makes a new connection ready.
func prepare(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, session); err != nil {
		return err
	}
	for statement, name := range prepared {
		if _, err := conn.Prepare(ctx, name, statement); err != nil {
			return err
		}
	}
	return nil
}

// name returns how to run a statement on the connection.
func (a *attempt) name(statement string) string {
	if a.conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return statement
	}
	return prepared[statement]
}

// heartbeat counts a heartbeat if nothing has changed. Without a row, it returns [pgx.ErrNoRows].
func (a *attempt) heartbeat(ctx context.Context, arguments, results []any) error {
	return a.conn.QueryRow(ctx, a.name(heartbeatStatement), arguments...).Scan(results...)
}

// read reads the ledger.
func (a *attempt) read(ctx context.Context, arguments, results []any) error {
	if !a.locks {
		return a.conn.QueryRow(ctx, a.name(readStatement), arguments...).Scan(results...)
	}
	batch := new(pgx.Batch)
	batch.Queue(a.name(beginStatement))
	batch.Queue(a.name(lockStatement), lockTimeout(ctx), abandoned)
	batch.Queue(a.name(readStatement), arguments...).QueryRow(func(row pgx.Row) error { return row.Scan(results...) })
	return a.conn.SendBatch(ctx, batch).Close()
}

// write writes what has changed, and commits.
func (a *attempt) write(ctx context.Context, arguments, results []any) error {
	if !a.locks {
		return a.conn.QueryRow(ctx, a.name(writeStatement), arguments...).Scan(results...)
	}
	batch := new(pgx.Batch)
	batch.Queue(a.name(writeStatement), arguments...).QueryRow(func(row pgx.Row) error { return row.Scan(results...) })
	batch.Queue(a.name(commitStatement))
	return a.conn.SendBatch(ctx, batch).Close()
}

// end ends a transaction that was not committed.
func (a *attempt) end(ctx context.Context) {
	const idle = 'I'
	if !a.locks || a.conn.IsClosed() || a.conn.PgConn().TxStatus() == idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = a.conn.Exec(ctx, "ROLLBACK") // if it fails, the pool closes the connection
}

// lockTimeout returns how long the server is to wait for a lock, in milliseconds: so short that the call still hears of it. A call whose
// context ends costs its connection, and many proxies that connect anew make it worse.
func lockTimeout(ctx context.Context) string {
	wait := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-margin)
	}
	return strconv.FormatInt(max(wait, shortestWait).Milliseconds(), 10)
}

const (
	// abandoned is after how many milliseconds the server ends a connection that has locked the ledger and says nothing: its proxy is stopped
	// or cut off, and no other can write meanwhile. An exchange does not take as long.
	abandoned = "2000"
	// shortestWait and longestWait bound how long a lock is waited for.
	shortestWait = 50 * time.Millisecond
	longestWait  = 4 * time.Second
	// margin is what is left of a call's time when a lock was not free in time.
	margin = 300 * time.Millisecond
)
