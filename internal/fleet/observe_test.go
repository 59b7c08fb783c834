package fleet

import (
	"testing"
	"time"
)

// A proxy that has made an exchange since the last look, or has had no time for one, is not suspected because the database's clock has jumped;
// one that has not, and that the database has not seen for long, is.
func TestClockOfTheDatabaseJumps(t *testing.T) {
	for _, test := range []struct {
		moved     bool
		after     time.Duration
		suspected bool
	}{{true, HeartbeatInterval, false}, {false, HeartbeatInterval / 10, false}, {false, HeartbeatInterval, true}} {
		h := NewHolder(HolderOptions{ID: "a"})
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		look := func(beats uint64, own time.Duration, at Instant) {
			h.observe([]Member{{ID: "a", Seen: start.Add(own)}, {ID: "b", Heartbeats: beats, Seen: start}}, at)
		}
		look(7, 0, Instant(time.Second))
		beats := uint64(7)
		if test.moved {
			beats++
		}
		h.askedAt = Instant(time.Second)
		look(beats, 10*time.Minute, Instant(time.Second+test.after))
		if got := len(h.Suspects()) > 0; got != test.suspected {
			t.Errorf("%+v: suspected: %v", test, got)
		}
	}
}
