package calibrate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// model is a server with a known law: k streams at full speed, and beyond that lag grows by (n-k)/k seconds per second.
type model struct {
	k    int
	law  law
	dice *rand.Rand

	worked time.Duration // under at least 80 % of its load, for thermal
	calls  int
}

type law string

const (
	plain     law = "plain"
	refuse    law = "refuse"     // the streams over k are refused
	slowStart law = "slow start" // results of a step's first 8 s are up to 3 s late
	thermal   law = "thermal"    // a tenth slower once it has worked for 4 minutes
	noisy     law = "noisy"      // each result is up to 20 % later or earlier, and so is all of a step
	batch     law = "batch"      // results wait for the next of the steps of a batch, and the batches grow
	erratic   law = "erratic"    // its speed changes by 40 % every 20 s: no number is right
)

var laws = []law{plain, refuse, slowStart, thermal, noisy, batch}

// base is the lag of a result on an idle server, and every how often results come.
const (
	base   = 0.3
	every  = 0.5
	warmUp = 10 // the first recording of each stream does not count
)

func (s *model) measure(_ context.Context, n int, length time.Duration) (Measured, error) {
	s.calls++
	m := Measured{Sessions: max(1, int(length/(10*time.Second))) * n, SameText: 1, First: 300 * time.Millisecond, Final: 300 * time.Millisecond}
	if s.law == refuse && n > s.k {
		m.Failed, m.Failure = n-s.k, "refused"
		return m, nil
	}
	whole := 1.0 // of the step
	if s.law == noisy {
		whole = 0.8 + 0.4*s.dice.Float64()
	}
	speed, behind := 1.0, 0.0
	var at, lags []float64
	for t := 0.0; t < warmUp+length.Seconds(); t += every {
		capacity := float64(s.k)
		switch s.law {
		case thermal:
			if s.worked > 4*time.Minute {
				capacity = s.truth()
			}
		case erratic:
			if math.Mod(t, 20) == 0 {
				speed = math.Exp(0.4 * s.dice.NormFloat64())
			}
			capacity *= speed
		}
		if float64(n) > 0.8*float64(s.k) {
			s.worked += time.Duration(every * float64(time.Second))
		}
		behind = max(0, behind+every*(float64(n)-capacity)/capacity)
		lag := base + behind
		switch s.law {
		case noisy:
			lag *= whole * (0.8 + 0.4*s.dice.Float64())
		case slowStart:
			lag += max(0, 3-3*t/8)
		case batch:
			size := 0.1 * math.Ceil(float64(n)/8/(float64(s.k)/32+1)) // in seconds
			lag = size * math.Ceil(lag/size)
		default:
			lag += 0.02 * s.dice.Float64()
		}
		if t < warmUp {
			continue
		}
		at, lags = append(at, t), append(lags, lag)
	}
	m.Slope, m.SlopeError = line(at, lags)
	slices.Sort(lags)
	m.Lag = time.Duration(lags[len(lags)*95/100] * float64(time.Second))
	return m, nil
}

// truth is the number that a search must find.
func (s *model) truth() float64 {
	if s.law == thermal {
		return math.Ceil(0.9 * float64(s.k))
	}
	return float64(s.k)
}

// line is the slope of a line through the means of ten blocks, and 95 % of its uncertainty: lags of a moment are alike, so single ones show less
// than their number says.
func line(x, y []float64) (slope, uncertain float64) {
	const blocks = 10
	var bx, by [blocks]float64
	for i := range blocks {
		from, to := i*len(x)/blocks, (i+1)*len(x)/blocks
		for j := from; j < to; j++ {
			bx[i] += x[j] / float64(to-from)
			by[i] += y[j] / float64(to-from)
		}
	}
	var mx, my, sxx, sxy, residuals float64
	for i := range blocks {
		mx, my = mx+bx[i]/blocks, my+by[i]/blocks
	}
	for i := range blocks {
		sxx += (bx[i] - mx) * (bx[i] - mx)
		sxy += (bx[i] - mx) * (by[i] - my)
	}
	slope = sxy / sxx
	for i := range blocks {
		r := by[i] - my - slope*(bx[i]-mx)
		residuals += r * r
	}
	return slope, 2.3 * math.Sqrt(residuals/(blocks-2)/sxx)
}

func (s *model) String() string { return fmt.Sprintf("%s, k = %d", s.law, s.k) }
