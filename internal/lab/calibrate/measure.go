package calibrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// Server is a server under calibration: what measures for a [Search]. One goroutine owns it.
type Server struct {
	// Streams is how sessions are held, with recordings as long as a session. Server sets what differs from step to step.
	Streams streams.Options
	// Short are shorter recordings, to see how the server is between steps.
	Short  []*speaker.Recording
	Limits Limits
	// Log gets a line about what takes time besides the steps.
	Log func(format string, args ...any)

	// calm is what a server must show before it is measured again: the lag of sessions alone, and as much again.
	calm time.Duration
}

// How long a server may take to recover from a step that it has failed: while it serves a session late, and while it serves none.
const (
	recoverTime = 5 * time.Minute
	returnTime  = time.Minute
)

// ErrGone is returned when a server does not recover from a step that it has failed.
var ErrGone = errors.New("the server has not recovered")

// spread is the time over which the streams of a step begin, so that their audio does not come all at once.
func (s *Server) spread() time.Duration { return Longest(s.Streams.Recordings) / 15 }

// Before is what a step takes besides its length.
func (s *Server) Before() time.Duration { return Longest(s.Short) + 2*s.spread() }

// Longest is how long the longest recording lasts.
func Longest(all []*speaker.Recording) (longest time.Duration) {
	for _, r := range all {
		longest = max(longest, r.Length())
	}
	return longest
}

// Alone holds one session with each recording, which those of the steps are compared with. The error is that of the first one that failed.
func (s *Server) Alone(ctx context.Context) (*load.Result, error) {
	short, err := streams.Alone(ctx, s.short())
	if err == nil {
		s.calm = max(s.Limits.Lag, 2*short.Result.Latency.Quantile(0.95))
		s.Streams.Alone, err = streams.Alone(ctx, s.Streams)
	}
	switch {
	case err != nil:
		return nil, err
	case len(s.Streams.Profile.Script().Texts) > 0 && !s.Streams.Alone.HasText(): // all sessions would have the same text, and none a first result
		return nil, fmt.Errorf("no session alone had a text, so there is nothing to compare with: use recordings with speech, or correct client.text of the profile %s", s.Streams.Profile.Name)
	}
	return s.Streams.Alone.Result, nil
}

// short are the options of short sessions.
func (s *Server) short() streams.Options {
	o := s.Streams
	o.Recordings, o.Alone = s.Short, nil
	return o
}

// Measure holds so many streams for so long, after one short session of each that does not count unless the server refuses some. Call Alone first. It
// returns when the server has recovered from what it has failed, with ErrGone if it does not.
func (s *Server) Measure(ctx context.Context, n int, length time.Duration) (Measured, error) {
	o := s.short()
	o.Streams, o.Spread = n, s.spread()
	r, err := streams.Run(ctx, o)
	if err == nil && ctx.Err() == nil && float64(r.Failures()) <= s.Limits.ErrorRate*float64(r.Complete+r.Failures()) {
		o.Recordings, o.Alone, o.For = s.Streams.Recordings, s.Streams.Alone, max(0, length-Longest(s.Streams.Recordings))
		r, err = streams.Run(ctx, o)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Measured{}, err
	}
	m := measured(r)
	m.Length = Longest(s.Streams.Recordings)
	if verdict, _ := s.Limits.judge(n, m); verdict == Fails { // also if it is unclear why
		err = s.recover(ctx)
	}
	return m, err
}

func measured(r *load.Result) Measured {
	speech := r.Speech
	m := Measured{
		Sessions: int(r.Complete + r.Failures()), Failed: int(r.Failures()), Lag: r.Latency.Quantile(0.95), First: speech.First.Quantile(0.95), Final: speech.Final.Quantile(0.95),
		Unheard: speech.First.Count() == 0, Late: speech.Late.Quantile(0.99), Slope: speech.Growth.PerSecond, SlopeError: 2 * speech.Growth.Error,
	}
	if speech.Growth.Sessions < 2 { // which tell nothing about each other
		m.SlopeError = 1
	}
	if share, compared := speech.SameShare(); compared || r.Complete == 0 {
		m.SameText = share
	} else { // no client's text can differ
		m.SameText = 1
	}
	most := int64(0)
	for what, n := range r.Errors {
		if n > most || n == most && what < m.Failure {
			m.Failure, most = what, n
		}
	}
	if m.Failure == streams.SaidFailed {
		m.Failure = r.Said.Error()
	}
	return m
}

// recover returns when a session alone is served as before. What the server still works at would count against the next step.
func (s *Server) recover(ctx context.Context) error {
	began, said := time.Now(), false
	for {
		alone, err := streams.Alone(ctx, s.short())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && alone.Result.Latency.Quantile(0.95) <= s.calm:
			return nil
		case err == nil && time.Since(began) > recoverTime:
			return fmt.Errorf("%w after %v: the lag of one stream alone is still %s", ErrGone, recoverTime, short(alone.Result.Latency.Quantile(0.95)))
		case err != nil && time.Since(began) > returnTime:
			return fmt.Errorf("%w after %v: %w", ErrGone, returnTime, err)
		}
		if !said {
			s.Log("waiting until the server has recovered, %v at most", recoverTime)
			said = true
		}
		if !tasks.Sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}
