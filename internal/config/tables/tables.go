// Package tables reads and writes a configuration in the tables of an SQL database, in the caller's transaction. It is the part that
// SQLite and PostgreSQL share. Both have the same schema: a table for each kind of entity, with a column for each field, which is null
// for the default; head, whose one row has the version; revisions and changes, which triggers fill, whichever program writes.
//
// All values are text, so that each field has the same form everywhere.
package tables

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Tx is a transaction.
type Tx interface {
	// Query returns all rows. Their columns must be texts; nil is null.
	Query(ctx context.Context, sql string, args ...any) ([][]*string, error)
	// Exec runs one statement.
	Exec(ctx context.Context, sql string, args ...any) error
	// Lock keeps out other writers until the transaction ends.
	Lock(ctx context.Context) error
	// Sign tells the triggers who writes and why.
	Sign(ctx context.Context, who, why string) error
	// Seal ends what Sign began.
	Seal(ctx context.Context) error
}

// Rows are the rows that a query returned, as both database/sql and pgx have them.
type Rows interface {
	Next() bool
	Scan(to ...any) error
	Err() error
}

// Texts reads all rows. Their columns must be texts; nil is null.
func Texts(rows Rows, columns int) (all [][]*string, err error) {
	to := make([]any, columns)
	for rows.Next() {
		row := make([]*string, columns)
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

// Dialect is the SQL that differs between databases.
type Dialect struct {
	// Schema stands before the names of tables.
	Schema string
	// Parameter stands before the number of a parameter.
	Parameter string
	// Time is the expression for a revision's time as text (RFC 3339).
	Time string
	// Hour is the expression for the present hour by the database's clock, in UTC, as the table usage has it.
	Hour string
	// Newest is the schema version that this program knows.
	Newest int64
}

// Tables is a configuration in one transaction.
type Tables struct {
	Dialect
	Tx Tx
}

// tableOf returns the name of a kind's table.
func (t *Tables) tableOf(kind config.Kind) string { return t.Schema + string(kind) + "s" }

// Version returns the version of the configuration.
func (t *Tables) Version(ctx context.Context) (string, error) {
	rows, err := t.Tx.Query(ctx, "SELECT CAST(revision AS text) FROM "+t.Schema+"head")
	if err != nil {
		return "", fmt.Errorf("reading the configuration version: %w", err)
	}
	if len(rows) != 1 || rows[0][0] == nil {
		return "", fmt.Errorf("reading the configuration version: the table head has %d rows; it must have one", len(rows))
	}
	return *rows[0][0], nil
}

// checkSchema returns an error unless this program knows the version of the tables. It reads the version each time, since another
// program may migrate them at any time.
func (t *Tables) checkSchema(ctx context.Context) error {
	rows, err := t.Tx.Query(ctx, "SELECT CAST(max(version_id) AS text) FROM "+t.Schema+VersionTable+" WHERE is_applied")
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	version, err := strconv.ParseInt(text(rows[0][0]), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: the table %s%s has no version", config.ErrSchema, t.Schema, VersionTable)
	}
	return t.CheckSchema(version)
}

// Rows reads all entities.
func (t *Tables) Rows(ctx context.Context) (config.Rows, error) {
	all := make(config.Rows)
	for _, kind := range config.Kinds() {
		fields := config.Fields(kind)
		columns := make([]string, len(fields))
		for i, f := range fields {
			columns[i] = "CAST(" + config.Column(f.Name) + " AS text)"
		}
		rows, err := t.Tx.Query(ctx, "SELECT name, "+strings.Join(columns, ", ")+" FROM "+t.tableOf(kind))
		if err != nil {
			return nil, fmt.Errorf("reading the table %ss: %w", kind, err)
		}
		all[kind] = make(map[string]config.Values, len(rows))
		for _, row := range rows {
			values := make(config.Values)
			for i, f := range fields {
				if text := row[i+1]; text != nil {
					values[f.Name] = *text
				}
			}
			all[kind][*row[0]] = values
		}
	}
	return all, nil
}

// Load reads the whole configuration and validates it.
func (t *Tables) Load(ctx context.Context, check config.ProfileCheck) (*config.Snapshot, error) {
	if err := t.checkSchema(ctx); err != nil {
		return nil, err
	}
	version, err := t.Version(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := t.Rows(ctx)
	if err != nil {
		return nil, err
	}
	content, problems := rows.Content()
	return snapshot(version, &content, problems, check)
}

// snapshot makes a snapshot of a content; unread are the problems of fields that could not be parsed.
func snapshot(version string, content *config.Content, unread config.Problems, check config.ProfileCheck) (*config.Snapshot, error) {
	if len(unread) == 0 {
		snapshot, err := config.NewSnapshot(version, content, check)
		if err != nil {
			return nil, fmt.Errorf("version %s of the configuration is not valid: %w", version, err)
		}
		return snapshot, nil
	}
	return nil, fmt.Errorf("version %s of the configuration is not valid: %w", version, unread.With(content.Validate(check)))
}

// write adds a row, or changes the named fields of one.
func (t *Tables) write(ctx context.Context, kind config.Kind, name string, fields []string, values config.Values, exists bool) error {
	args := []any{name}
	columns := make([]string, len(fields))
	marks := make([]string, len(fields))
	for i, field := range fields {
		columns[i] = config.Column(field)
		marks[i] = fmt.Sprintf("%s%d", t.Parameter, i+2)
		if text, ok := values[field]; ok {
			args = append(args, text)
		} else {
			args = append(args, nil)
		}
	}
	sql := "INSERT INTO " + t.tableOf(kind) + " (" + strings.Join(append([]string{"name"}, columns...), ", ") +
		") VALUES (" + strings.Join(append([]string{t.Parameter + "1"}, marks...), ", ") + ")"
	if exists {
		for i := range columns {
			columns[i] += " = " + marks[i]
		}
		sql = "UPDATE " + t.tableOf(kind) + " SET " + strings.Join(columns, ", ") + " WHERE name = " + t.Parameter + "1"
	}
	if err := t.Tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("writing %s %s: %w", kind, name, err)
	}
	return nil
}

// Replace writes the differences between before, the content of the rows, and to. It also writes the fields that could not be parsed.
func (t *Tables) Replace(ctx context.Context, before, to *config.Content, unread config.Problems) error {
	broken := make(map[config.Kind]map[string][]string)
	for _, p := range unread {
		if broken[p.Kind] == nil {
			broken[p.Kind] = make(map[string][]string)
		}
		broken[p.Kind][p.Name] = append(broken[p.Kind][p.Name], p.Field)
	}
	for _, kind := range config.Kinds() {
		for _, name := range to.Names(kind) {
			values := to.Values(kind, name)
			fields := differing(kind, before.Values(kind, name), values, broken[kind][name])
			if exists := before.Has(kind, name); !exists || len(fields) > 0 {
				if err := t.write(ctx, kind, name, fields, values, exists); err != nil {
					return err
				}
			}
		}
	}
	kinds := config.Kinds()
	for i := len(kinds) - 1; i >= 0; i-- { // entities that refer to others come first
		for _, name := range before.Names(kinds[i]) {
			if to.Has(kinds[i], name) {
				continue
			}
			if err := t.Tx.Exec(ctx, "DELETE FROM "+t.tableOf(kinds[i])+" WHERE name = "+t.Parameter+"1", name); err != nil {
				return fmt.Errorf("removing %s %s: %w", kinds[i], name, err)
			}
		}
	}
	return nil
}

// differing returns the fields to write, in order.
func differing(kind config.Kind, before, after config.Values, broken []string) (fields []string) {
	isBroken := make(map[string]bool, len(broken))
	for _, field := range broken {
		isBroken[field] = true
	}
	for _, f := range config.Fields(kind) {
		from, had := before[f.Name]
		to, has := after[f.Name]
		if had != has || from != to || isBroken[f.Name] {
			fields = append(fields, f.Name)
		}
	}
	return fields
}
