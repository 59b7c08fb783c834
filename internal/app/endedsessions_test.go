package app

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/journal"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The sessions of the processes before this one are shown with its own, the latest first, each once.
func TestEndsSurvive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ends.jsonl")
	o := journal.Options{Path: path, MaxBytes: endsFile, Unwritten: mostEnds}
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	before := journal.Open[endKept](o)
	for i, id := range []string{"aaaaaaaa-1", "aaaaaaaa-2", "aaaaaaaa-3"} {
		before.Append(endKept{api.Session{ID: id, State: api.StateEnded, Ended: began.Add(time.Duration(i) * time.Second), Reason: "lost"}, "/stt"})
	}
	before.Close()
	e := &ends{path: path, mine: func() bool { return true }, log: slog.New(slog.DiscardHandler)}
	own := []api.Session{{ID: "aaaaaaaa-3", Ended: began.Add(2 * time.Second)}, {ID: "bbbbbbbb-1", Ended: began.Add(time.Second)}}
	var ids []string
	for _, s := range e.with(own) {
		ids = append(ids, s.ID)
	}
	if want := []string{"aaaaaaaa-3", "bbbbbbbb-1", "aaaaaaaa-2", "aaaaaaaa-1"}; !slices.Equal(ids, want) {
		t.Errorf("%q; want %q", ids, want)
	}
	if d, ok := e.find("aaaaaaaa-2"); !ok || d.Reason != "lost" || d.Path != "/stt" {
		t.Errorf("%+v, %v", d, ok)
	}
	if _, ok := e.find("aaaaaaaa-4"); ok {
		t.Error("an unknown session was found")
	}
}
