package meter

import (
	"testing"
	"time"
)

func TestRemaining(t *testing.T) {
	const s = time.Second
	h := NewHistogram(10*s, 20*s)
	if got, mean := h.Read().Remaining(7*s), h.Read().MeanRemaining(); got != 7*s || mean != 0 {
		t.Errorf("with nothing counted: %v, mean %v", got, mean)
	}
	for range 2 {
		h.Observe(5 * s)
	}
	h.Observe(15 * s)
	for _, c := range []struct{ age, want time.Duration }{
		{0, 25 * s / 3}, // two of 5 s, and one of 15 s
		{10 * s, 5 * s}, // only the one of 10 s to 20 s is left
		{15 * s, 5 * s / 2},
		{30 * s, 30 * s},    // it has outlasted all
		{5 * s, 25 * s / 4}, // half of the two, with 2.5 s left on average, and one with 10 s
	} {
		if got := h.Read().Remaining(c.age); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("after %v: %v; want %v", c.age, got, c.want)
		}
	}
	if got := h.Read().MeanRemaining(); (got - 6*s).Abs() > time.Millisecond { // (2x33.3 + 233.3) / (2 x 25)
		t.Errorf("of any: %v", got)
	}
	h.Observe(time.Hour)
	if got := h.Read().Remaining(time.Hour); got != time.Hour {
		t.Errorf("behind the last bound: %v", got)
	}
	if got := h.Read().Remaining(20 * s); got != 20*s {
		t.Errorf("at the last bound: %v", got)
	}
}
