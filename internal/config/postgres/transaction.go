package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// transaction is a [tables.Tx].
type transaction struct {
	tx          pgx.Tx
	lockTimeout time.Duration
}

// Query implements [tables.Tx].
func (t transaction) Query(ctx context.Context, statement string, args ...any) ([][]*string, error) {
	rows, err := t.tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return tables.Texts(rows, len(rows.FieldDescriptions()))
}

// Exec implements [tables.Tx]. The server parses the arguments, which are texts, as it parses literals.
func (t transaction) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.tx.Exec(ctx, statement, args...)
	return err
}

// Lock implements [tables.Tx]. The table's trigger takes the lock whether or not there is a row to delete.
func (t transaction) Lock(ctx context.Context) error {
	if err := t.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", t.lockTimeout.Milliseconds())); err != nil {
		return err
	}
	return t.Exec(ctx, "DELETE FROM wsbouncer.backends WHERE false")
}

// Sign implements [tables.Tx].
func (t transaction) Sign(ctx context.Context, who, why string) error {
	return t.Exec(ctx, "SELECT set_config('wsbouncer.who', $1, true), set_config('wsbouncer.why', $2, true)", who, why)
}

// Seal implements [tables.Tx]. It does nothing: the end of the transaction resets what Sign set.
func (t transaction) Seal(context.Context) error { return nil }
