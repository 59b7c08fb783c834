package calibrate

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// Options are what a search looks for, and how. All of them have a value.
type Options struct {
	Limits Limits
	// Session is the length of a session, and so of the shortest step. An overloaded server is later and later within a session. From one to the next it is
	// not, since a stream begins a session when it has got all of the last.
	Session time.Duration
	// Soak is the length of the last step at the result.
	Soak time.Duration
	// Before is what a step takes besides.
	Before time.Duration
	// Most is the largest number of streams that is tried.
	Most int
}

// The phases of a search.
const (
	Double = "double" // a search for a number that fails
	Bisect = "bisect" // between a number that holds and one that fails
	Soak   = "soak"   // the result, for long
	Beyond = "beyond" // one more than the result, which must fail
)

// Plan is the next step of a search.
type Plan struct {
	Phase   string        `json:"phase"`
	Streams int           `json:"streams"`
	Length  time.Duration `json:"length_ns"`
	Repeat  int           `json:"repeat,omitempty"` // how many times this step was unclear
}

// Step is a step that was taken.
type Step struct {
	Plan
	Measured Measured `json:"measured"`
	Verdict  Verdict  `json:"verdict"`
	Why      string   `json:"why"` // the limit that does not hold, or what is unclear; empty if all hold
}

// Outcome is what a search has found.
type Outcome struct {
	// Found is the largest number of streams for which all limits hold, 0 if there is no result.
	Found int
	// AtMost reports that Options.Most holds, so that the server may take more.
	AtMost bool
	// Why says why there is no result.
	Why string
}

// The bounds of a search.
const (
	// searchSessions is how many sessions a step has at least, since one alone does not show how uncertain its slope is, and proofSessions how many the soak
	// and the step beyond have.
	searchSessions, proofSessions = 2, 10
	// mostRepeats is how many times an unclear step is repeated, each time for twice as long.
	mostRepeats = 2
	// mostSurprises is how many times a number may both hold and fail, or noise may hide how the soak or the step beyond went: a server that gets hot
	// surprises once, one whose speed changes all the time again and again.
	mostSurprises = 3
)

// MostSteps is the number of steps of a search whose result is k, on a server that never surprises: it doubles, bisects, soaks and looks beyond. Each
// unclear step adds mostRepeats at most, and each of mostSurprises as many steps again.
func MostSteps(k int) int { return 2*bits.Len(uint(k)) + 3 }

// search is the state of a search: what the steps so far show. It follows from them alone, so that a list of steps is all that a search needs to continue.
type search struct {
	Options
	holds     int    // the largest number that holds, 0 for none
	fails     int    // the smallest one that fails, 0 for none
	why       string // it does
	gap       int    // how far the next number is from the last, while one side is not known
	soaked    bool   // holds was soaked
	shown     bool   // fails was seen to fail after the soak
	again     bool   // the soak and the step beyond are taken once more, since chance may have had a part in them
	surprises int
	repeat    *Plan // an unclear step
	outcome   *Outcome
}

// take notes a step.
func (s *search) take(step Step) {
	s.repeat = nil
	verdict := step.Verdict
	if verdict == Unclear {
		if step.Phase == Soak || step.Phase == Beyond {
			if s.surprised("%s: %s", figures.Plural(step.Streams, "stream"), step.Why); s.outcome != nil {
				return
			}
		}
		if step.Repeat < mostRepeats {
			again := step.Plan
			again.Repeat++
			again.Length *= 2
			s.repeat = &again
			return
		}
		if step.Phase == Soak || step.Phase == Beyond || step.Measured.Lag > s.Limits.Lag {
			s.end("%s: %s, also in a step of %s", figures.Plural(step.Streams, "stream"), step.Why, step.Length)
			return
		}
		verdict = Holds // for now: the soak decides
	}
	n := step.Streams
	switch {
	case step.Phase == Soak && verdict == Fails && n == 1 && step.Repeat == 0: // there is no smaller number, and chance may have had a part
		again := step.Plan
		again.Repeat++
		s.repeat = &again
	case step.Phase == Soak && verdict == Fails:
		s.why = step.Why
		s.surprised("%s held for a while, but not in the soak", figures.Plural(n, "stream"))
		s.fails, s.holds, s.gap, s.again = n, 0, max(1, n/32), false // what held before may not hold now either
	case step.Phase == Soak:
		s.soaked = true
	case step.Phase == Beyond && verdict == Fails && !s.again && (s.surprises > 0 || s.cliff(step.Measured)):
		s.again, s.soaked = true, false
	case step.Phase == Beyond && verdict == Fails:
		s.shown = true
	case step.Phase == Beyond && step.Length < s.Soak: // which is true shows in the time that the result was given
		again := step.Plan
		again.Length = s.Soak
		s.repeat = &again
		s.surprised("%d streams failed before, and held after the soak of %d", n, s.holds)
	case step.Phase == Beyond:
		s.surprised("%d streams failed before, and held for as long as %d", n, s.holds)
		s.holds, s.fails, s.gap, s.soaked, s.again = n, 0, 1, false, false
	case verdict == Holds:
		s.holds = n
	default:
		s.fails, s.why = n, step.Why
	}
}

// cliff reports whether one stream more than holds has lag grow by more than it can explain: where n streams just hold, that is 1/n.
func (s *search) cliff(m Measured) bool { return m.Slope-m.SlopeError > 2/float64(s.holds) }

func (s *search) surprised(format string, args ...any) {
	if s.surprises++; s.surprises > mostSurprises {
		s.end("the server is not the same from step to step (%d surprises, the last one: %s)", s.surprises, fmt.Sprintf(format, args...))
	}
}

func (s *search) end(format string, args ...any) {
	s.outcome = &Outcome{Why: fmt.Sprintf(format, args...)}
}

// next returns the next step, or the outcome.
func (s *search) next() (Plan, *Outcome) {
	switch {
	case s.outcome != nil:
		return Plan{}, s.outcome
	case s.repeat != nil:
		return *s.repeat, nil
	case s.fails == 1:
		return Plan{}, &Outcome{Why: "one stream alone does not hold the limits: " + s.why}
	case s.fails == 0 && s.holds < s.Most:
		n := 1
		if s.gap > 0 {
			n, s.gap = s.holds+s.gap, 2*s.gap
		} else if s.holds > 0 {
			n = 2 * s.holds
		}
		return s.plan(Double, min(n, s.Most)), nil
	case s.fails > 0 && s.holds == 0 && s.gap > 0: // after a soak that failed
		n := max(1, s.fails-s.gap)
		s.gap *= 2
		return s.plan(Double, n), nil
	case s.fails > s.holds+1:
		return s.plan(Bisect, (s.holds+s.fails)/2), nil
	case !s.soaked:
		plan := s.plan(Soak, s.holds)
		plan.Length = max(plan.Length, s.length(s.holds, proofSessions), s.Soak)
		return plan, nil
	case s.fails == 0:
		return Plan{}, &Outcome{Found: s.holds, AtMost: true}
	case !s.shown:
		plan := s.plan(Beyond, s.fails)
		plan.Length = max(2*s.Session, s.length(s.fails, proofSessions))
		return plan, nil
	}
	return Plan{}, &Outcome{Found: s.holds}
}

func (s *search) plan(phase string, streams int) Plan {
	return Plan{Phase: phase, Streams: streams, Length: s.length(streams, searchSessions)}
}

// length returns how long a step takes in which so many streams hold at least so many sessions, and each of them one.
func (o *Options) length(streams, sessions int) time.Duration {
	return time.Duration(max(1, (sessions+streams-1)/streams)) * o.Session
}

// Search is a search with its steps so far. One goroutine owns it.
type Search struct {
	Options Options
	// Measure holds so many streams for so long.
	Measure func(ctx context.Context, streams int, length time.Duration) (Measured, error)
	// Begins is called before each step, with what will probably be left after it, and Taken after it with all steps so far; its error ends the search.
	Begins func(number int, p Plan, left time.Duration)
	Taken  func(steps []Step) error
}

// Run continues a search after the steps, nil for a new one. The error is that of Measure or Taken.
func (s *Search) Run(ctx context.Context, steps []Step) (Outcome, []Step, error) {
	state := search{Options: s.Options}
	for _, step := range steps {
		state.next() // as when it was planned
		state.take(step)
	}
	for {
		before := state
		plan, outcome := state.next()
		if outcome != nil {
			return *outcome, steps, nil
		}
		s.Begins(len(steps)+1, plan, before.rest(before.likely())-s.Options.Takes(plan))
		m, err := s.Measure(ctx, plan.Streams, plan.Length)
		if err != nil {
			return Outcome{}, steps, err
		}
		step := Step{Plan: plan, Measured: m}
		step.Verdict, step.Why = s.Options.Limits.Judge(plan.Streams, m)
		steps = append(steps, step)
		state.take(step)
		if err := s.Taken(steps); err != nil {
			return Outcome{}, steps, err
		}
	}
}

// Takes is how long a step takes.
func (o *Options) Takes(p Plan) time.Duration { return p.Length + o.Before }

// Estimate is how long a search takes on a server for so many streams that never surprises.
func (o *Options) Estimate(streams int) time.Duration {
	s := search{Options: *o}
	return s.rest(streams)
}

// likely is what the result may be: the middle of what is known.
func (s *search) likely() int {
	switch {
	case s.fails > 0:
		return max(1, (s.holds+s.fails)/2)
	case s.holds == 0:
		return 1
	}
	return min(2*s.holds, s.Most)
}

// rest is how long a search still takes on a server for so many streams. It works on a copy.
func (s *search) rest(streams int) (takes time.Duration) {
	ideal := *s
	for range 1000 {
		plan, outcome := ideal.next()
		if outcome != nil {
			break
		}
		takes += ideal.Takes(plan)
		step := Step{Plan: plan, Verdict: Holds}
		if plan.Streams > streams {
			step.Verdict = Fails
		}
		ideal.take(step)
	}
	return takes
}
