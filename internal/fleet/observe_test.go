package fleet

import (
	"testing"
	"time"
)

// A proxy that has made an exchange since the last look is not suspected because the database's clock has jumped; one that has not, and that
// the database has not seen for long, is.
func TestClockOfTheDatabaseJumps(t *testing.T) {
	for _, moved := range []bool{true, false} {
		h := NewHolder(HolderOptions{ID: "a"})
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		look := func(beats uint64, own time.Duration, at Instant) {
			h.observe([]Member{{ID: "a", Seen: start.Add(own)}, {ID: "b", Beats: beats, Seen: start}}, at)
		}
		look(7, 0, Instant(time.Second))
		beats := uint64(7)
		if moved {
			beats++
		}
		look(beats, 10*time.Minute, Instant(2*time.Second))
		if got := len(h.Suspects(0)) > 0; got == moved {
			t.Errorf("it made an exchange: %v; suspected: %v", moved, got)
		}
	}
}
