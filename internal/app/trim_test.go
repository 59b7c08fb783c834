package app

import (
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
)

func TestBurst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		begun []uint64 // at each look
		over  int      // the look at which it is over, from 1; 0 for none
	}{
		{"nothing happens", []uint64{0, 0, 0, 0}, 0},
		{"too few to matter", []uint64{trimAfter - 1, trimAfter - 1, trimAfter - 1}, 0},
		{"a burst, once", []uint64{0, trimAfter, trimAfter, trimAfter, trimAfter, trimAfter}, 4},
		{"it continues", []uint64{600, 1200, 1800, 2400, 3000}, 0},
		{"a pause is not its end", []uint64{1000, 1000, 2000, 2000, 2000}, 5},
		{"some always come", []uint64{1000, 1000 + trimCalm, 1000 + 2*trimCalm, 1000 + 3*trimCalm}, 3},
	} {
		var b burst
		for i, begun := range test.begun {
			if over := b.isOver(begun); over != (i+1 == test.over) {
				t.Errorf("%s: look %d says %v", test.name, i+1, over)
			}
		}
	}
}

// Memory for failover that is not in use goes back after a minute at most: it must have been free at two looks, half a minute apart.
func TestTrimReplay(t *testing.T) {
	t.Parallel()
	if between := trimReplayAfter * trimInterval; 2*between > time.Minute {
		t.Errorf("a look each %v", between)
	}
	arena := replay.NewArena(1 << 20)
	var w replay.Window
	w.SetArena(arena, replay.Owner{})
	if !w.Append(make([]byte, 100)) {
		t.Fatal("no memory")
	}
	w.End(profile.Entry{})
	tick := everyNth(trimReplayAfter, arena.Trim)
	for range 3 * trimReplayAfter {
		tick()
	}
	if arena.Held() == 0 {
		t.Fatal("memory in use was given back")
	}
	w.Free()
	for range 2*trimReplayAfter - 1 {
		tick()
	}
	if arena.Held() == 0 {
		t.Error("given back too early")
	}
	if tick(); arena.Held() != 0 {
		t.Errorf("%d bytes are held", arena.Held())
	}
}

// A process that drains gives memory back ten seconds after that began, and then each time when a quarter of its sessions has ended, and not
// more often than all ten seconds.
func TestDecline(t *testing.T) {
	t.Parallel()
	var d decline
	var due []int
	sessions := int64(100)
	for tick := range 200 {
		if tick%10 == 9 {
			sessions -= 5
		}
		if d.isDue(sessions) {
			due = append(due, int(sessions))
		}
	}
	if want := []int{90, 65, 45, 30, 20, 10, 0}; !slices.Equal(due, want) {
		t.Errorf("memory was given back at %v sessions; want %v", due, want)
	}
}
