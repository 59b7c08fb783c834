//go:build linux

package main

import (
	"fmt"
	"testing"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]float64, 100) // 100, 99 ... 1
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]float64{3, 1}, 0.5, 1},
		{[]float64{3, 1}, 0.51, 3},
		{[]float64{7}, 0.99, 7},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %d values = %v, want %v", c.q, len(c.values), got, c.want)
		}
	}
	if got := median([]float64{9, 1, 4}); got != 4 {
		t.Errorf("median of three = %v, want 4", got)
	}
	if got := median([]float64{9, 1, 4, 6}); got != 5 {
		t.Errorf("median of four = %v, want 5", got)
	}
}

func TestSpread(t *testing.T) {
	if got, want := spread([]float64{2, 30, 1}, 1), "2.0 (1.0 - 30.0)"; got != want {
		t.Errorf("spread = %q, want %q", got, want)
	}
	if got := spread(nil, 1); got != "-" {
		t.Errorf("spread of nothing = %q", got)
	}
}

// TestRatiosAreThoseOfRounds divides by the base of the same round, and leaves rounds out in which one is missing.
func TestRatiosAreThoseOfRounds(t *testing.T) {
	got := fmt.Sprint(ratios([]float64{2, 9, 0, 8}, []float64{1, 3, 5, 0}))
	if want := fmt.Sprint([]float64{2, 3}); got != want {
		t.Errorf("ratios = %v, want %v", got, want)
	}
	if got := fmt.Sprint(measured([]float64{2, 0, 4})); got != "[2 4]" {
		t.Errorf("measured = %v, want [2 4]", got)
	}
}
