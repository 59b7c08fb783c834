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
	if want := 60*ms + 2 + time.Hour; d.Sum != want || d.Count() != 7 {
		t.Errorf("%d durations of %v in all; want 7 of %v", d.Count(), d.Sum, want)
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
