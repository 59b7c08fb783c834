package sqlite

import (
	"context"
	"database/sql"

	"github.com/wsbouncer/wsbouncer/internal/config/tables"
)

// transaction is what package tables needs of one.
type transaction struct {
	*sql.Tx
	newest int64 // version of the schema
}

func (t *transaction) tables() *tables.Tables {
	return &tables.Tables{Dialect: dialect, Tx: t, Newest: t.newest}
}

// Query implements [tables.Tx].
func (t *transaction) Query(ctx context.Context, statement string, args ...any) (all [][]*string, err error) {
	rows, err := t.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	to := make([]any, len(columns))
	for rows.Next() {
		row := make([]*string, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// Exec implements [tables.Tx].
func (t *transaction) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.ExecContext(ctx, statement, args...)
	return err
}

// Lock implements [tables.Writer]: the transaction has the lock since it began.
func (t *transaction) Lock(context.Context) error { return nil }

// Sign implements [tables.Writer].
func (t *transaction) Sign(ctx context.Context, who, why string) error {
	if err := t.Exec(ctx, "INSERT INTO author (who, why) VALUES (?1, nullif(?2, ''))", who, why); err != nil {
		return err
	}
	return t.Exec(ctx, "UPDATE head SET revision = revision + 1")
}

// Seal implements [tables.Writer].
func (t *transaction) Seal(ctx context.Context) error { return t.Exec(ctx, "DELETE FROM author") }
