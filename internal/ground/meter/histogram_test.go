package meter

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// A duration is counted in the bucket whose upper bound it does not exceed.
func TestHistogram(t *testing.T) {
	h := NewHistogram(10*ms, 20*ms)
	for _, d := range []time.Duration{-ms, 0, 10 * ms, 10*ms + 1, 20 * ms, 20*ms + 1, time.Hour} {
		h.Observe(d)
	}
	d := h.Read()
	if got, want := d.Counts[:4], []uint64{3, 2, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("counts %v; want %v", got, want)
	}
	if want := 3600.06; d.Sum != want || d.Count() != 7 {
		t.Errorf("%d durations of %v s in all; want 7 of %v", d.Count(), d.Sum, want)
	}
	for range 1000 {
		h.Observe(365 * 24 * time.Hour)
	}
	if sum := h.Read().Sum; sum < 1000*365*86400 {
		t.Errorf("a thousand years are %v s", sum)
	}
}

// Quantiles are interpolated within a bucket, and are those of the time between two readings.
func TestQuantile(t *testing.T) {
	h := NewHistogram(10*ms, 20*ms, 40*ms)
	for range 1000 {
		h.Observe(5 * ms)
	}
	before := h.Read()
	if got := before.Since(before); got.Quantile(0.5) != 0 || got.Count() != 0 || got.Sum != 0 {
		t.Errorf("nothing was counted, and the median is %v", got.Quantile(0.5))
	}
	for range 4 {
		h.Observe(15 * ms)
		h.Observe(30 * ms)
	}
	now := h.Read()
	since := now.Since(before)
	for q, want := range map[float64]time.Duration{0: 10 * ms, 0.25: 15 * ms, 0.5: 20 * ms, 0.75: 30 * ms, 1: 40 * ms} {
		if got := since.Quantile(q); got != want {
			t.Errorf("quantile %v is %v; want %v", q, got, want)
		}
	}
	h.Observe(time.Hour)
	last := h.Read()
	if beyond := last.Since(now); beyond.Quantile(0.5) != 40*ms {
		t.Errorf("the median of what is beyond the highest bound is %v; want the bound", beyond.Quantile(0.5))
	}
}

// The bounds of all histograms ascend, as Prometheus wants them.
func TestBounds(t *testing.T) {
	for i, all := range bounds {
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || len(all) > maxBounds {
			t.Errorf("the bounds of histogram %d: %v", i, all)
		}
	}
}

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
