package streams

import (
	"math"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// lags are those of a session.
type lags struct {
	recording int
	began     time.Duration // its first audio, since the run began
	samples   []lag
}

// lag is how long audio had to wait for its answer.
type lag struct {
	audio time.Duration // when the audio was due, since the session's first
	lag   time.Duration
}

// shocks is how many parts the time of a run is divided into. All sessions in a part may have had the same trouble.
const shocks = 10

// growth returns the slope of lag within sessions, over when the audio was due, for audio from a time to another; for all of it if there is too little.
// What the lags of sessions alone show as well, such as at the end of utterances, is no growth, unless the server cannot even keep up with them. One that
// alone was late at its beginning, such as that of a server that was loading its model, is not compared with.
//
// It is a linear fit with an intercept for each session. Lags of a session depend on each other, and so do lags of all sessions that
// were held while the server had trouble. So the variance is the sum of two: with each session for one observation, and with each part of the
// run's time for one. What the sessions alone have by chance is taken off all others, so it counts as well: they are taken to vary as much as the others.
func growth(all, alone []lags, from, to time.Duration) load.Growth {
	if tooSlow(alone) {
		alone = nil
	}
	alone = slices.DeleteFunc(slices.Clone(alone), func(a lags) bool {
		return trend([]lags{a}) < 0 && trend(slices.DeleteFunc(slices.Clone(all), func(s lags) bool { return s.recording != a.recording })) >= 0
	})
	g := fit(all, alone, func(at time.Duration) bool { return at >= from && at <= to })
	if g.Sessions < 2 {
		g = fit(all, alone, func(time.Duration) bool { return true })
	}
	return g
}

// The lag of sessions has a trend if it changes by more than leastGrowth and three times its error, in leastLags lags. A few lags may do so by what was said.
const (
	leastGrowth = 0.05
	leastLags   = 8
)

// tooSlow reports whether the server does not keep up with sessions that are alone.
func tooSlow(alone []lags) bool { return trend(alone) > 0 }

// trend returns how lag changes within sessions, in seconds a second; 0 if that may be chance.
func trend(sessions []lags) float64 {
	n := 0
	for _, s := range sessions {
		n += len(s.samples)
	}
	g := fit(sessions, nil, func(time.Duration) bool { return true })
	if n < leastLags || math.Abs(g.PerSecond) <= max(leastGrowth, 3*g.Error) {
		return 0
	}
	return g.PerSecond
}

// xy is a lag without what sessions alone have, and when its audio was due, in seconds. Both are relative to their session's mean.
type xy struct{ at, x, y float64 }

func fit(all, alone []lags, counts func(at time.Duration) bool) load.Growth {
	var sessions [][]xy
	var sxx, sxy, first, last float64
	first = math.Inf(1)
	for _, s := range all {
		points := s.points(alone, counts)
		if len(points) < 2 {
			continue
		}
		sessions = append(sessions, points)
		for _, p := range points {
			sxx += p.x * p.x
			sxy += p.x * p.y
			first, last = min(first, p.at), max(last, p.at)
		}
	}
	if sxx == 0 {
		return load.Growth{}
	}
	slope := sxy / sxx
	bySession, byTime := make([]float64, len(sessions)), make([]float64, shocks+1)
	for i, s := range sessions {
		for _, p := range s {
			score := p.x * (p.y - slope*p.x)
			bySession[i] += score
			byTime[int(shocks*(p.at-first)/(last-first))] += score
		}
	}
	v := variance(bySession)
	if len(alone) > 0 {
		v += v * float64(len(sessions)) / float64(len(alone))
	}
	return load.Growth{PerSecond: slope, Error: math.Sqrt(v+variance(byTime)) / sxx, Sessions: len(sessions)}
}

// points returns the lags of a session that count. One that has a single lag begins without any, if it is known what it would have alone.
func (s *lags) points(alone []lags, counts func(at time.Duration) bool) (points []xy) {
	for _, l := range s.samples {
		if at := s.began + l.audio; counts(at) {
			points = append(points, xy{at.Seconds(), l.audio.Seconds(), (l.lag - usual(alone, s.recording, l.audio)).Seconds()})
		}
	}
	if len(s.samples) == 1 && len(points) == 1 && len(alone) > 0 {
		points = append(points, xy{at: s.began.Seconds()})
	}
	x, y := 0.0, 0.0
	for _, p := range points {
		x += p.x / float64(len(points))
		y += p.y / float64(len(points))
	}
	for i := range points {
		points[i].x -= x
		points[i].y -= y
	}
	return points
}

// usual returns the lag that a session alone has with this recording, nearest to this audio; 0 if there is none.
func usual(alone []lags, recording int, audio time.Duration) (usual time.Duration) {
	distance := time.Duration(math.MaxInt64)
	for _, s := range alone {
		for _, l := range s.samples {
			if d := (l.audio - audio).Abs(); s.recording == recording && d < distance {
				distance, usual = d, l.lag
			}
		}
	}
	return usual
}

// variance returns that of the sum of the scores of observations, some of which may be missing.
func variance(scores []float64) (v float64) {
	n := 0.0
	for _, score := range scores {
		if v += score * score; score != 0 {
			n++
		}
	}
	return v * n / max(n-1, 1)
}
