package streams

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// held returns lags of sessions of 8 s whose lag grows by slope, with noise, and with trouble that all sessions have in common for a while.
func held(random *rand.Rand, sessions int, slope, noise, trouble float64) (all []lags) {
	bad := random.Float64() * 30
	for range sessions {
		began := random.Float64() * 30
		s := lags{began: time.Duration(began * float64(time.Second))}
		for at := 0.1; at < 8; at += 0.1 {
			lag := 0.2 + slope*at + noise*random.NormFloat64()
			if now := began + at; now > bad && now < bad+3 {
				lag += trouble
			}
			s.samples = append(s.samples, sampled(at, lag))
		}
		all = append(all, s)
	}
	return all
}

func sampled(at, after float64) lag {
	return lag{time.Duration(at * float64(time.Second)), time.Duration(after * float64(time.Second))}
}

// TestGrowth checks that the slope is found, and that its error tells how far off it may be.
func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		slope, noise, trouble float64
		beside                bool // sessions alone
	}{
		"none":            {0, 0.05, 0, false},
		"slight":          {0.005, 0.05, 0, false},
		"overload":        {0.5, 0.3, 0, false},
		"trouble":         {0, 0.05, 2, false},
		"beside alone":    {0.005, 0.05, 0, true},
		"overload beside": {0.5, 0.3, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			far, runs := 0, 200
			for range runs {
				var alone []lags
				if c.beside {
					alone = held(random, 1, 0, c.noise, 0)
				}
				g := growth(held(random, 20, c.slope, c.noise, c.trouble), alone, 0, time.Hour)
				if g.Sessions != 20 {
					t.Fatalf("%d sessions", g.Sessions)
				}
				if math.Abs(g.PerSecond-c.slope) > 2*g.Error {
					far++
				}
				if c.trouble == 0 && math.Abs(g.PerSecond-c.slope) > 0.06 {
					t.Errorf("slope %g, want %g", g.PerSecond, c.slope)
				}
			}
			if far > runs/10 {
				t.Errorf("%d of %d slopes are off by more than two errors", far, runs)
			}
		})
	}
}

// TestGrowthOfSlowServer: a server that does not keep up with a session that is alone is overloaded with more of them, too.
func TestGrowthOfSlowServer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	g := growth(held(random, 5, 0.2, 0.05, 0), held(random, 1, 0.2, 0.05, 0), 0, time.Hour)
	if math.Abs(g.PerSecond-0.2) > 0.02 || g.Error > 0.02 {
		t.Errorf("%+v, want 0.2", g)
	}
}

// TestGrowthAgainstColdServer: a session alone whose first lags were long, since the server had just started, says nothing about others. It does if those
// begin like this, too.
func TestGrowthAgainstColdServer(t *testing.T) {
	lasting := func(lag func(at float64) float64) (s lags) {
		for at := 0.1; at < 8; at += 0.1 {
			s.samples = append(s.samples, sampled(at, lag(at)))
		}
		return s
	}
	cold := lasting(func(at float64) float64 { return max(0.2, 3-at) })
	random := rand.New(rand.NewPCG(5, 6))
	if g := growth(held(random, 20, 0, 0.05, 0), []lags{cold}, 0, time.Hour); math.Abs(g.PerSecond) > 0.01 || g.Sessions != 20 {
		t.Errorf("%+v, want 0", g)
	}
	var all []lags
	for i := range 20 {
		s := lasting(func(at float64) float64 { return max(0.2, 3-at) + 0.05*at + 0.02*random.NormFloat64() })
		s.began = time.Duration(i) * time.Second
		all = append(all, s)
	}
	if g := growth(all, []lags{cold}, 0, time.Hour); math.Abs(g.PerSecond-0.05) > 0.01 {
		t.Errorf("%+v, want 0.05", g)
	}
}

// TestGrowthAgainstAlone checks that what sessions alone show is no growth, and that a single lag tells something beside theirs.
func TestGrowthAgainstAlone(t *testing.T) {
	alone := []lags{{recording: 1, samples: []lag{sampled(2, 0.1), sampled(4, 0.7)}}}
	same := []lags{{recording: 1, samples: []lag{sampled(2, 0.2), sampled(4, 0.8)}}, {recording: 1, samples: []lag{sampled(2, 0.1), sampled(4, 0.7)}}}
	if g := growth(same, alone, 0, 0); math.Abs(g.PerSecond) > 1e-9 || g.Sessions != 2 {
		t.Errorf("%+v", g)
	}
	if g := growth(same, nil, 0, 0); math.Abs(g.PerSecond-0.3) > 1e-9 {
		t.Errorf("%+v without those alone, want 0.3", g)
	}
	alone = []lags{{samples: []lag{sampled(8, 0.3)}}}
	last := []lags{{samples: []lag{sampled(8, 4.3)}}, {began: time.Second, samples: []lag{sampled(8, 4.3)}}}
	if g := growth(last, alone, 0, 0); math.Abs(g.PerSecond-0.5) > 1e-9 || g.Sessions != 2 {
		t.Errorf("%+v, want 0.5", g)
	}
	if g := growth(last, nil, 0, 0); g.Sessions != 0 {
		t.Errorf("%+v, want nothing", g)
	}
}
