package tables

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// History returns the latest revisions, the newest first.
func (t *Tables) History(ctx context.Context, limit int) (revisions []config.Revision, err error) {
	if limit <= 0 {
		return nil, nil
	}
	// Sort by r.revision, the number: PostgreSQL names the first column revision, too, and would sort by its text.
	rows, err := t.Tx.Query(ctx, "SELECT CAST(r.revision AS text), "+t.Time+", who, why FROM "+t.Schema+
		"revisions AS r ORDER BY r.revision DESC LIMIT "+strconv.Itoa(limit))
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	oldest, err := strconv.ParseInt(*rows[len(rows)-1][0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	traces, err := t.traces(ctx, oldest-1)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r := config.Revision{Version: *row[0], Who: text(row[2]), Why: text(row[3])}
		if r.At, err = time.Parse(time.RFC3339Nano, text(row[1])); err != nil {
			return nil, fmt.Errorf("reading the history: revision %s: %w", r.Version, err)
		}
		r.Edits = config.TraceEdits(traces[r.Version])
		revisions = append(revisions, r)
	}
	return revisions, nil
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// traces returns the changes after a revision, by revision.
func (t *Tables) traces(ctx context.Context, after int64) (map[string][]config.Trace, error) {
	rows, err := t.Tx.Query(ctx, "SELECT CAST(revision AS text), action, kind, name, field, was, became FROM "+t.Schema+
		"changes WHERE revision > "+strconv.FormatInt(after, 10)+" ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	traces := make(map[string][]config.Trace)
	for _, row := range rows {
		traces[*row[0]] = append(traces[*row[0]], config.Trace{
			Action: config.Action(text(row[1])), Kind: config.Kind(text(row[2])), Name: text(row[3]), Field: config.FieldOf(text(row[4])),
			From: row[5], To: row[6],
		})
	}
	return traces, nil
}

// At returns the content of the configuration at a version: it takes all later changes back from the current content.
func (t *Tables) At(ctx context.Context, version string, check config.ProfileCheck) (config.Content, error) {
	current, err := t.Version(ctx)
	if err != nil {
		return config.Content{}, err
	}
	newest, _ := strconv.ParseInt(current, 10, 64)
	wanted, err := strconv.ParseInt(version, 10, 64)
	if err != nil || wanted < 0 || wanted > newest || strconv.FormatInt(wanted, 10) != version {
		return config.Content{}, fmt.Errorf("%w: %q: use 0 to %s", config.ErrNoVersion, version, current)
	}
	rows, err := t.Rows(ctx)
	if err != nil {
		return config.Content{}, err
	}
	traces, err := t.traces(ctx, wanted)
	if err != nil {
		return config.Content{}, err
	}
	for revision := newest; revision > wanted; revision-- {
		undone, ok := traces[strconv.FormatInt(revision, 10)]
		if !ok { // rows of the history were removed
			return config.Content{}, fmt.Errorf("%w: %q: the changes of version %d are no longer kept", config.ErrNoVersion, version, revision)
		}
		rows.Undo(undone)
	}
	content, problems := rows.Content()
	if _, err := snapshot(version, &content, problems, check); err != nil {
		return config.Content{}, err
	}
	return content, nil
}
