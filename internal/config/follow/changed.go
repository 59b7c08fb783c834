package follow

import (
	"context"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

const (
	mostEdits   = 50 // of one change that are logged
	mostAuthors = 50 // revisions that are searched for who made a change
)

// logChange logs the changes between two snapshots, who made them and why. before is nil at the start, when nothing is logged.
func (f *Follower) logChange(ctx context.Context, before, next *config.Snapshot, edits config.Edits) {
	if before == nil {
		return
	}
	about := []any{"version", next.Version(), "before", before.Version(), "edits", len(edits)}
	who, why := f.authors(ctx, before.Version(), next.Version())
	if who != "" {
		about = append(about, "who", who)
	}
	if why != "" {
		about = append(about, "why", why)
	}
	f.o.Log.Info("configuration changed", about...)
	for i, edit := range edits {
		if i == mostEdits {
			f.o.Log.Info("configuration changed: and more", "edits", len(edits)-mostEdits)
			return
		}
		f.o.Log.Info("configuration changed: " + edit.String())
	}
}

// authors returns who made the changes between two versions and why, the oldest first, as far as the store knows. An unreadable
// history is ignored, since the change itself is in force.
func (f *Follower) authors(ctx context.Context, before, next string) (who, why string) {
	revisions, err := f.o.Store.History(ctx, mostAuthors)
	if err != nil {
		return "", ""
	}
	last := slices.IndexFunc(revisions, func(r config.Revision) bool { return r.Version == next })
	if last < 0 {
		return "", ""
	}
	revisions = revisions[last:]
	if first := slices.IndexFunc(revisions, func(r config.Revision) bool { return r.Version == before }); first > 0 {
		revisions = revisions[:first]
	} else {
		revisions = revisions[:1] // what came between is not known
	}
	var people, reasons []string
	for _, r := range slices.Backward(revisions) {
		if r.Who != "" && !slices.Contains(people, r.Who) {
			people = append(people, r.Who)
		}
		if r.Why != "" && !slices.Contains(reasons, r.Why) {
			reasons = append(reasons, r.Why)
		}
	}
	return strings.Join(people, ", "), strings.Join(reasons, "; ")
}
