package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// attempt runs the statements of an exchange: each by itself, or all in one transaction that has locked the ledger's head. In both cases
// each of them takes one trip to the server.
type attempt struct {
	conn  *pgx.Conn
	locks bool
}

// prepared are the names of the statements that a connection prepares once. The driver's own cache would prepare them anew after an error,
// such as a lock that was waited for in vain.
var prepared = map[string]string{
	pulseStatement: "fleet_pulse", beatStatement: "fleet_beat", lockStatement: "fleet_lock", writeStatement: "fleet_write",
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

// pulse counts a beat if nothing has changed. Without a row, it returns [pgx.ErrNoRows].
func (a *attempt) pulse(ctx context.Context, arguments, results []any) error {
	return a.conn.QueryRow(ctx, a.name(pulseStatement), arguments...).Scan(results...)
}

// read reads the ledger.
func (a *attempt) read(ctx context.Context, arguments, results []any) error {
	if !a.locks {
		return a.conn.QueryRow(ctx, a.name(beatStatement), arguments...).Scan(results...)
	}
	batch := new(pgx.Batch)
	batch.Queue(a.name(beginStatement))
	batch.Queue(a.name(lockStatement), lockTimeout(ctx), abandoned)
	batch.Queue(a.name(beatStatement), arguments...).QueryRow(func(row pgx.Row) error { return row.Scan(results...) })
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
	// or cut off, and nobody else can write meanwhile. An exchange does not take as long.
	abandoned = "2000"
	// shortestWait and longestWait bound how long a lock is waited for.
	shortestWait = 50 * time.Millisecond
	longestWait  = 4 * time.Second
	// margin is what is left of a call's time when a lock was waited for in vain.
	margin = 300 * time.Millisecond
)
