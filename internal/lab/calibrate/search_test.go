package calibrate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var options = Options{
	Limits: Limits{Lag: time.Second, SameText: 0.98}, Session: 30 * time.Second, Soak: 5 * time.Minute, Most: 1000,
}

func newModel(l law, k int, seed uint64) *model {
	return &model{k: k, law: l, dice: rand.New(rand.NewPCG(seed, uint64(k)))}
}

// run searches on a model.
func run(t *testing.T, s *model, o Options) (Outcome, []Step) {
	t.Helper()
	search := Search{Options: o, Measure: s.measure, Begins: func(int, Plan, time.Duration) {}, Taken: func([]Step) error { return nil }}
	outcome, steps, err := search.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return outcome, steps
}

// TestFindsEachLaw finds k within one on servers with a known law, in [MostSteps] steps, and up to 10 more where the server surprises.
func TestFindsEachLaw(t *testing.T) {
	for _, l := range laws {
		more := 0
		if l == thermal || l == batch || l == noisy {
			more = 10
		}
		for k := 1; k <= 200; k++ {
			s := newModel(l, k, 1)
			outcome, steps := run(t, s, options)
			if off := math.Abs(float64(outcome.Found) - s.truth()); off > 1 || outcome.Found == 0 || outcome.AtMost || len(steps) > MostSteps(k)+more {
				t.Errorf("%v: found %+v in %d steps", s, outcome, len(steps))
				show(t, steps)
			}
		}
	}
}

func show(t *testing.T, steps []Step) {
	for _, step := range steps {
		t.Logf("  %s %d for %v: %s %s", step.Phase, step.Streams, step.Length, step.Verdict, step.Why)
	}
}

func TestFindsRandomLaws(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 7))
	for i := range 50 {
		s := newModel(laws[dice.IntN(len(laws))], 1+dice.IntN(400), uint64(i))
		outcome, _ := run(t, s, options)
		if off := math.Abs(float64(outcome.Found) - s.truth()); off > max(1, 0.05*s.truth()) {
			t.Errorf("%v: found %+v", s, outcome)
		}
	}
}

// TestNoResult gives no result where noise makes it impossible: chance looks like a server's limit less than once in a hundred times.
func TestNoResult(t *testing.T) {
	found := 0
	for seed := range 1000 {
		s := newModel(erratic, 10+seed%300, uint64(seed))
		switch outcome, steps := run(t, s, options); {
		case outcome.Found != 0:
			found++
		case outcome.Why == "" || len(steps) > 60:
			t.Errorf("%v: %+v in %d steps", s, outcome, len(steps))
			show(t, steps)
		}
	}
	if found > 9 {
		t.Errorf("%d results", found)
	}
}

// TestReachesTheLimit says that the limit given holds.
func TestReachesTheLimit(t *testing.T) {
	o := options
	o.Most = 24
	if outcome, _ := run(t, newModel(plain, 100, 1), o); outcome != (Outcome{Found: 24, AtMost: true}) {
		t.Errorf("found %+v", outcome)
	}
	if outcome, _ := run(t, newModel(plain, 24, 1), o); outcome != (Outcome{Found: 24, AtMost: true}) {
		t.Errorf("found %+v", outcome)
	}
}

// TestContinues takes the same steps when it is interrupted after each.
func TestContinues(t *testing.T) {
	whole, want := run(t, newModel(plain, 37, 1), options)
	s, stop := newModel(plain, 37, 1), errors.New("interrupted")
	var steps []Step
	for range 2 * len(want) {
		search := Search{
			Options: options, Measure: s.measure, Begins: func(int, Plan, time.Duration) {},
			Taken: func(taken []Step) error { steps = taken; return stop },
		}
		outcome, _, err := search.Run(context.Background(), steps)
		if err == nil {
			if outcome != whole || len(steps) != len(want) || s.calls != len(want) {
				t.Errorf("found %+v in %d steps, not %+v in %d", outcome, len(steps), whole, len(want))
			}
			return
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	t.Error("it does not end")
}

// TestOneStreamFailsInTheSoak soaks once more where one stream failed in the soak, and names the reason of that one if it fails again.
func TestOneStreamFailsInTheSoak(t *testing.T) {
	for failures, want := range map[int]Outcome{
		1: {Found: 1},
		2: {Why: "one stream alone does not hold the limits: lag p95 is 3s"},
	} {
		measure := func(_ context.Context, n int, length time.Duration) (Measured, error) {
			m := Measured{Sessions: 10, SameText: 1}
			switch {
			case n > 1:
				m.Failed, m.Failure = 1, "refused"
			case length >= options.Soak && failures > 0:
				m.Lag = 3 * time.Second
				failures--
			}
			return m, nil
		}
		search := Search{Options: options, Measure: measure, Begins: func(int, Plan, time.Duration) {}, Taken: func([]Step) error { return nil }}
		if outcome, steps, err := search.Run(context.Background(), nil); err != nil || outcome != want {
			t.Errorf("found %+v, %v, want %+v", outcome, err, want)
			show(t, steps)
		}
	}
}
