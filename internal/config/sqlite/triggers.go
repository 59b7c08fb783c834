package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Triggers write the history, whichever program changes a row. A trigger in SQLite has to name each column, so this program
// generates the triggers from the fields of each kind of entity. It generates them again if a database has others: after a
// migration has added a column, or if another version of the program created the database.

// event is what happens to a row, and how a trigger sees it.
type event struct {
	statement, action string
	row               string // the row that has the entity's name
	was, became       string // the rows that have a column's old and new value; empty for none
}

var events = []event{
	{"INSERT", "added", "NEW", "", "NEW"},
	{"UPDATE", "changed", "NEW", "OLD", "NEW"},
	{"DELETE", "removed", "OLD", "OLD", ""},
}

// triggers returns the statements that create all triggers, by trigger name.
func triggers() map[string]string {
	all := make(map[string]string)
	for _, kind := range config.Kinds() {
		for _, e := range events {
			name := fmt.Sprintf("%ss_%s", kind, e.action)
			all[name] = e.trigger(name, kind)
		}
	}
	return all
}

// trigger returns the statement that creates a trigger.
func (e event) trigger(name string, kind config.Kind) string {
	value := func(row, column string) string {
		if row == "" {
			return "NULL"
		}
		return row + "." + column
	}
	differs := []string{"OLD.name IS NOT NEW.name"}
	rows := []string{"SELECT '' AS field, NULL AS was, NULL AS became"} // says that the entity was added or removed
	for _, f := range config.Fields(kind) {
		column := config.Column(f.Name)
		differs = append(differs, fmt.Sprintf("OLD.%s IS NOT NEW.%[1]s", column))
		rows = append(rows, fmt.Sprintf("SELECT '%s', %s, %s", column, value(e.was, column), value(e.became, column)))
	}
	when, refuse, also := "", "", " OR field = ''"
	if e.action == string(config.Changed) {
		when = "\n    WHEN " + strings.Join(differs, "\n        OR ")
		refuse = fmt.Sprintf("\n    SELECT RAISE(ABORT, 'a %s cannot be renamed: add one with the new name and remove the old one') WHERE OLD.name <> NEW.name;", kind)
		also = ""
	}
	return fmt.Sprintf(`CREATE TRIGGER %s AFTER %s ON %ss%s
BEGIN%s
    UPDATE head SET revision = revision + 1 WHERE NOT EXISTS (SELECT 1 FROM author);
    INSERT OR IGNORE INTO revisions (revision, at, who, why)
        SELECT revision, strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ'), coalesce((SELECT who FROM author), '(SQL)'), (SELECT why FROM author) FROM head;
    INSERT INTO changes (revision, action, kind, name, field, was, became)
    SELECT head.revision, '%s', '%s', %s.name, field, was, became FROM head, (
        %s
    ) WHERE was IS NOT became%s;
END`, name, e.statement, kind, when, refuse, e.action, kind, e.row, strings.Join(rows, "\n        UNION ALL "), also)
}

// hasTriggers reports whether the database has the triggers that this program creates.
func (h *handle) hasTriggers(ctx context.Context) (bool, error) {
	rows, err := h.pin.QueryContext(ctx, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	missing := triggers()
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return false, err
		}
		if missing[name] == statement {
			delete(missing, name)
		}
	}
	return len(missing) == 0, rows.Err()
}

// makeTriggers creates all triggers, and replaces those of the same names.
func (h *handle) makeTriggers(ctx context.Context) error {
	tx, err := h.pin.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for name, statement := range triggers() {
		if _, err := tx.ExecContext(ctx, "DROP TRIGGER IF EXISTS "+name+"; "+statement); err != nil {
			return fmt.Errorf("making the trigger %s: %w", name, err)
		}
	}
	return tx.Commit()
}
