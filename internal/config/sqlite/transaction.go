package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// transaction is a [tables.Tx].
type transaction struct{ tx *sql.Tx }

// begin begins a transaction. One that writes waits for other writers, for at most busyTimeout; SQLite itself would wait that long
// even if ctx has ended.
func begin(ctx context.Context, conn *sql.Conn, writing bool) (tx *sql.Tx, err error) {
	if !writing {
		return conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	}
	const step = 50 * time.Millisecond
	if err := setBusyTimeout(ctx, conn, step); err != nil {
		return nil, err
	}
	// By the clock alone, a writer would give up after a standstill of the machine, in which nobody could release the lock.
	for attempts, deadline := 1, time.Now().Add(busyTimeout); ; attempts++ {
		tx, err = conn.BeginTx(ctx, nil)
		var failure *sqlite.Error
		isBusy := errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_BUSY
		if !isBusy || ctx.Err() != nil || attempts >= int(busyTimeout/step) && time.Now().After(deadline) {
			break
		}
	}
	// The connection's next user expects the usual timeout.
	return tx, errors.Join(err, setBusyTimeout(context.WithoutCancel(ctx), conn, busyTimeout))
}

// setBusyTimeout sets how long SQLite waits for a lock.
func setBusyTimeout(ctx context.Context, conn *sql.Conn, d time.Duration) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
	return err
}

// Query implements [tables.Tx].
func (t transaction) Query(ctx context.Context, statement string, args ...any) ([][]*string, error) {
	rows, err := t.tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	return tables.Texts(rows, len(columns))
}

// Exec implements [tables.Tx].
func (t transaction) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.tx.ExecContext(ctx, statement, args...)
	return err
}

// Lock implements [tables.Tx]. It does nothing: the transaction has held the lock since it began.
func (t transaction) Lock(context.Context) error { return nil }

// Sign implements [tables.Tx].
func (t transaction) Sign(ctx context.Context, who, why string) error {
	if err := t.Exec(ctx, "INSERT INTO author (who, why) VALUES (?1, nullif(?2, ''))", who, why); err != nil {
		return err
	}
	return t.Exec(ctx, "UPDATE head SET revision = revision + 1")
}

// Seal implements [tables.Tx].
func (t transaction) Seal(ctx context.Context) error { return t.Exec(ctx, "DELETE FROM author") }
