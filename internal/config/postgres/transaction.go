package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// transaction implements what package tables needs of a transaction.
type transaction struct {
	pgx.Tx
	newest int64 // version of the schema
}

func (t *transaction) tables() *tables.Tables {
	return &tables.Tables{Dialect: dialect, Tx: runner{t.Tx}, Newest: t.newest}
}

// runner is a [tables.Tx].
type runner struct{ tx pgx.Tx }

// Query implements [tables.Tx].
func (r runner) Query(ctx context.Context, statement string, args ...any) ([][]*string, error) {
	rows, err := r.tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return tables.Texts(rows, len(rows.FieldDescriptions()))
}

// Exec implements [tables.Tx]. The server parses the arguments, which are texts, as it parses literals.
func (r runner) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := r.tx.Exec(ctx, statement, args...)
	return err
}

// Lock implements [tables.Writer]. The table's trigger takes the lock whether or not there is a row to delete.
func (t *transaction) Lock(ctx context.Context) error {
	if err := (runner{t.Tx}).Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
		return err
	}
	return runner{t.Tx}.Exec(ctx, "DELETE FROM wsbouncer.backends WHERE false")
}

// Sign implements [tables.Writer].
func (t *transaction) Sign(ctx context.Context, who, why string) error {
	return runner{t.Tx}.Exec(ctx, "SELECT set_config('wsbouncer.who', $1, true), set_config('wsbouncer.why', $2, true)", who, why)
}

// Seal implements [tables.Writer]. It does nothing: the end of the transaction resets what Sign set.
func (t *transaction) Seal(context.Context) error { return nil }
