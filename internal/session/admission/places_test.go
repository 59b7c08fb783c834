package admission

import (
	"testing"
	"time"
)

// What is expected is unknown at first, follows the rate at which leases end, and forgets what was long ago.
func TestWaitRate(t *testing.T) {
	var r waitRate
	now, ended := time.Unix(1000, 0), uint64(500) // what ended before the first sample says nothing
	run := func(seconds int, perSecond uint64) {
		for range seconds {
			now, ended = now.Add(time.Second), ended+perSecond
			r.sample(now, ended)
		}
	}
	r.sample(now, ended)
	if got := r.wait(1); got != -1 {
		t.Errorf("at first: %d", got)
	}
	run(10, 0)
	run(1, enoughEnds-1)
	if got := r.wait(1); got != -1 {
		t.Errorf("after too few: %d", got)
	}
	run(200, 2)
	for place, want := range map[int]int{1: 1, 2: 1, 3: 2, 10: 5, 1000: 500} {
		if got := r.wait(place); got < want || got > want+1+want/20 {
			t.Errorf("2 a second, place %d: %d; want %d", place, got, want)
		}
	}
	run(400, 0)
	if got := r.wait(1); got < 1000 && got != -1 {
		t.Errorf("long after the last: %d", got)
	}
	run(400, 10)
	if got := r.wait(100); got < 10 || got > 11 {
		t.Errorf("10 a second: %d; want 10", got)
	}
	r.sample(now, ended+1) // at the same instant
	if got := r.wait(100); got < 10 || got > 11 {
		t.Errorf("a second sample of one instant: %d", got)
	}
	now = now.Add(maxGap + 1)
	r.sample(now, ended+1_000_000)
	if got := r.wait(1); got != -1 {
		t.Errorf("after a gap: %d", got)
	}
	run(10, 1)
	r.sample(now.Add(time.Second), 3)
	if got := r.wait(1); got != -1 {
		t.Errorf("after backends were removed: %d", got)
	}
}
