package loop

import (
	"math"
	"slices"
	"testing"
)

func TestGovernorDecides(t *testing.T) {
	type look struct {
		shares []float64
		times  int
	}
	tests := []struct {
		name            string
		lowest, highest int
		looks           []look
		last            verdict // of the last decision; all before it must be keep
	}{
		{"idle", 1, 4, []look{{[]float64{0}, 100}}, keep},
		{"one busy look is no reason", 1, 4, []look{{[]float64{0.95}, 1}}, keep},
		{"two are", 1, 4, []look{{[]float64{0.95}, 2}}, wakeOne},
		{"not in a row", 1, 4, []look{{[]float64{0.95}, 1}, {[]float64{0.5}, 1}, {[]float64{0.95}, 1}}, keep},
		{"just at the threshold", 1, 4, []look{{[]float64{0.80}, 50}}, keep},
		{"none left to wake", 1, 1, []look{{[]float64{1}, 50}}, keep},
		{"all awake", 1, 2, []look{{[]float64{1, 1}, 50}}, keep},
		{"it is the average that counts", 1, 4, []look{{[]float64{1, 0.75}, 2}}, wakeOne},
		{"one of two is busy, the sum is not", 1, 4, []look{{[]float64{0.9, 0.65}, 50}}, keep},
		{"eleven quiet looks are no reason", 1, 4, []look{{[]float64{0.2, 0.2}, 11}}, keep},
		{"twelve are", 1, 4, []look{{[]float64{0.2, 0.2}, 12}}, parkOne},
		{"quiet, interrupted", 1, 4, []look{{[]float64{0.2, 0.2}, 11}, {[]float64{0.3, 0.3}, 1}, {[]float64{0.2, 0.2}, 11}}, keep},
		{"just not quiet enough", 1, 4, []look{{[]float64{0.25, 0.25}, 50}}, keep},
		{"the least are awake", 2, 4, []look{{[]float64{0, 0}, 50}}, keep},
		{"quiet for three", 1, 4, []look{{[]float64{0.4, 0.3, 0.2}, 12}}, parkOne},
		{"not for two of three", 1, 4, []look{{[]float64{0.4, 0.4, 0.3}, 50}}, keep},
		{"uneven, seven times", 1, 2, []look{{[]float64{0.9, 0.3}, 7}}, keep},
		{"uneven, eight times", 1, 2, []look{{[]float64{0.9, 0.3}, 8}}, balance},
		{"uneven the other way round", 1, 2, []look{{[]float64{0.5, 0.95}, 8}}, balance},
		{"uneven, but not busy", 1, 2, []look{{[]float64{0.75, 0.2}, 50}}, keep},
		{"busy, but even", 1, 2, []look{{[]float64{0.9, 0.65}, 50}}, keep},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := governor{lowest: test.lowest, highest: test.highest}
			for i, look := range test.looks {
				for n := range look.times {
					d := g.decide(look.shares)
					want := keep
					if i == len(test.looks)-1 && n == look.times-1 {
						want = test.last
					}
					if d.verdict != want {
						t.Fatalf("look %d of %v: verdict %v, want %v", n+1, look.shares, d.verdict, want)
					}
				}
			}
		})
	}
}

// What was before a loop was woken does not count as busy afterwards, and no loop is parked at once.
func TestGovernorStartsAfresh(t *testing.T) {
	g := governor{lowest: 1, highest: 3}
	var verdicts []verdict
	for range 3 {
		verdicts = append(verdicts, g.decide([]float64{1}).verdict)
	}
	if want := []verdict{keep, wakeOne, keep}; !slices.Equal(verdicts, want) {
		t.Errorf("%v, want %v", verdicts, want)
	}
	g = governor{lowest: 1, highest: 3}
	for range parkAfter {
		g.decide([]float64{0, 0, 0})
	}
	for n := range parkAfter - 1 {
		if d := g.decide([]float64{0, 0}); d.verdict != keep {
			t.Errorf("%d looks after parking one: %v", n+1, d.verdict)
		}
	}
}

// For no load may the governor park a loop that it would wake again at once: the sum of the work stays the same.
func TestGovernorHasHysteresis(t *testing.T) {
	const highest = 4
	for awake := 2; awake <= highest; awake++ {
		for total := 0.0; total <= float64(awake); total += 0.01 {
			g := governor{lowest: 1, highest: highest}
			parks := false
			for range parkAfter {
				shares := make([]float64, awake)
				for i := range shares {
					shares[i] = total / float64(awake)
				}
				parks = parks || g.decide(shares).verdict == parkOne
			}
			if !parks {
				continue
			}
			for range 2 * wakeAfter {
				shares := make([]float64, awake-1)
				for i := range shares {
					shares[i] = total / float64(awake-1)
				}
				if g.decide(shares).verdict == wakeOne {
					t.Fatalf("with %d awake, a load of %.2f is parked and woken", awake, total)
				}
			}
		}
	}
}

func TestGovernorBalances(t *testing.T) {
	g := governor{lowest: 1, highest: 3}
	var d decision
	for range unevenAfter {
		d = g.decide([]float64{0.5, 0.9, 0.1})
	}
	// The share of the busiest loop's work that makes it as busy as the least busy one.
	if d.verdict != balance || d.from != 1 || d.to != 2 || math.Abs(0.9*(1-d.share)-(0.1+0.9*d.share)) > 1e-9 {
		t.Errorf("%+v", d)
	}
	if d = g.decide([]float64{0.5, 0.9, 0.1}); d.verdict != keep {
		t.Errorf("balanced again at once: %+v", d)
	}
}
