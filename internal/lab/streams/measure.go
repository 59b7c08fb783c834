package streams

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// run is a call of Run or Alone.
type run struct {
	Options
	ctx   context.Context
	began time.Time
	shown load.Progress // the last report; the goroutine of Run owns it

	mu     sync.Mutex // guards what follows
	result load.Result
	speech load.Speech
	by     map[load.LagBy]int // of sessions
	lags   []lags
	alike  float64       // the sum over the sessions that were compared
	spoken time.Duration // by complete sessions
	took   time.Duration // them, from when the first audio was spoken to the last message
	open   int64         // connections
	joined int64         // connections that were ever opened
	point  load.Point    // the current one of the time series
	before basis         // what had been counted when it began
	recent load.Times    // lag in it
	marks  map[load.Phase]mark
}

// mark is what had been counted when a phase began.
type mark struct {
	at       time.Duration
	byTarget []load.Counts
}

// basis is what had been counted at some time.
type basis struct {
	load.Counts
	joined int64
}

// newRun returns a run that begins now.
func newRun(ctx context.Context, o Options) *run {
	o.Connect, o.Last, o.Interval = cmp.Or(o.Connect, defaultConnect), cmp.Or(o.Last, DefaultLast), cmp.Or(o.Interval, time.Second)
	if o.Progress == nil {
		o.Progress = func(load.Progress) {}
	}
	r := &run{Options: o, ctx: ctx, began: time.Now(), by: make(map[load.LagBy]int), marks: make(map[load.Phase]mark)}
	r.speech.Texts = make([]string, len(o.Recordings))
	r.result.Figures = newFigures(o.Streams)
	for i, t := range o.Targets {
		figures := newFigures(load.ClientsOf(o.Streams, i, len(o.Targets)))
		r.result.Targets = append(r.result.Targets, load.TargetResult{URL: secret.URL(t.Server()), Figures: figures})
	}
	return r
}

func newFigures(connections int) load.Figures {
	return load.Figures{Connections: connections, Errors: make(map[string]int64), CloseCodes: make(map[frame.CloseCode]int64)}
}

// now is the time since the run began.
func (r *run) now() time.Duration { return time.Since(r.began) }

// locked calls f with mu held.
func (r *run) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// count has f count in the figures of all targets, and in those of the session's.
func (s *session) count(f func(*load.Figures)) {
	s.run.locked(func() {
		f(&s.run.result.Figures)
		f(&s.run.result.Targets[s.target].Figures)
	})
}

// refused counts a session that could not connect.
func (s *session) refused(err error) {
	s.count(func(f *load.Figures) {
		switch {
		case s.run.ctx.Err() != nil:
			f.Cut++
			return
		case s.again:
			f.Refused++
		default:
			f.ConnectFailures++
		}
		f.Errors["connect: "+load.Kind(err)]++
		s.run.result.Refusal = cmp.Or(s.run.result.Refusal, err)
	})
	if _, full := speaker.Refused(s.run.Profile, err); full {
		s.run.locked(func() { s.run.speech.Full++ })
	}
}

// connect counts a session that has connected.
func (s *session) connect() {
	s.count(func(f *load.Figures) {
		took := int64(s.connected - s.began)
		if s.again {
			f.ConnectAgain.Record(took)
			return
		}
		f.Connected++
		f.Connect.Record(took)
		f.AllConnected = max(f.AllConnected, s.connected)
	})
	s.run.locked(func() {
		s.run.open++
		s.run.joined++
	})
}

// SaidFailed is the kind of error of sessions that the server says have failed. Its messages may all differ.
const SaidFailed = "the server reported that the session failed"

// end counts a session that had connected, and measures it if it is complete.
func (s *session) end(result *speaker.Result, err error) {
	r, now, code, why := s.run, s.run.now(), frame.NormalClosure, ""
	_, full := speaker.Refused(r.Profile, err)
	full = err != nil && (full || result.SaysFull(r.Profile))
	_, said := errors.AsType[*speaker.FailedError](err)
	switch {
	case full:
		why = "the server is full"
	case result.Closed != nil:
		why = "closed with " + result.Closed.Code.String()
	case errors.Is(err, io.EOF):
		why = "ended without a close frame"
	case said:
		why = SaidFailed
	case err != nil:
		why = load.Kind(err)
	}
	switch {
	case result.Closed != nil:
		code = result.Closed.Code
	case err != nil:
		code = frame.AbnormalClosure
	}
	s.count(func(f *load.Figures) {
		switch {
		case err != nil && r.ctx.Err() != nil:
			f.Cut++
		case err != nil:
			f.Failed++
			f.Errors[why]++
			f.CloseCodes[code]++
		default:
			f.Complete++
			f.CloseCodes[code]++
		}
		if !result.Heard {
			return
		}
		took := s.connected - s.began + result.Spoke + result.First
		if s.again {
			f.ReplyAgain.Record(int64(took))
			return
		}
		f.FirstEcho.Record(int64(took))
		f.LastFirstEcho = max(f.LastFirstEcho, s.began+took)
	})
	r.locked(func() {
		if full {
			r.speech.Full++
		} else if said {
			r.result.Said = cmp.Or(r.result.Said, err)
		}
		if result.Heard {
			r.speech.First.Record(int64(result.First))
		}
	})
	if err == nil {
		by := s.complete()
		r.locked(func() { r.complete(s, result, by, now) })
	}
}

// complete measures a complete session. Call it with mu held.
func (r *run) complete(s *session, result *speaker.Result, by load.LagBy, now time.Duration) {
	var texts []string
	recording := r.Recordings[s.recording]
	for _, m := range recording.Finals(s.finals, result.Received) {
		texts = append(texts, recording.Texts(m)...)
	}
	text := words(strings.Join(texts, " "))
	if text == "" && r.Profile.Script().TakesText() { // the server speaks: its finals are audio, and texts beside them hold for good
		text = words(result.Text)
	}
	r.by[by]++
	r.speech.Final.Record(int64(now - s.connected - result.Over))
	r.spoken += recording.Length()
	script := r.Profile.Script()
	r.took += now - s.connected - result.Spoke + script.Chunk - script.Pause // audio is sent when it has been spoken
	r.lags = append(r.lags, lags{recording: s.recording, began: s.first, samples: s.lags})
	if r.speech.Texts[s.recording] == "" {
		r.speech.Texts[s.recording] = text
	}
	if r.Alone == nil {
		return
	}
	switch alone := r.Alone.Result.Speech.Texts[s.recording]; {
	case text == "" && alone == "": // as from a server whose model is gone: nothing can be compared
	case text == alone:
		r.speech.Same++
		r.alike++
	default:
		r.speech.Other++
		r.alike += Alike(text, alone)
	}
}

// words returns a text with one space between its words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// finish returns the result.
func (r *run) finish() *load.Result {
	r.closePoint(load.Done)
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 0
	for by, n := range r.by {
		if n > most {
			r.speech.Lag, most = by, n
		}
	}
	if r.spoken > 0 {
		r.speech.RealTime = r.took.Seconds() / r.spoken.Seconds()
	}
	if n := r.speech.Same + r.speech.Other; n > 0 {
		r.speech.Alike = r.alike / float64(n)
	}
	var alone []lags
	if r.Alone != nil {
		alone = r.Alone.lags
	}
	r.speech.Growth = growth(r.lags, alone, r.Spread, r.Spread+r.For)
	r.result.Speech, r.result.Interrupted = &r.speech, r.ctx.Err() != nil
	if steady, draining := r.marks[load.Steady], r.marks[load.Draining]; draining.at > steady.at && r.For > 0 {
		r.result.Duration = draining.at - steady.at
		r.result.SetRates(steady.byTarget, draining.byTarget)
	}
	r.result.Series = slices.Clip(r.result.Series)
	return &r.result
}

// shortest is how long a point of the time series is at least: the rates of a shorter one would be mere chance.
const shortest = 100 * time.Millisecond

// enter marks the beginning of a phase, with which a point of the time series begins. One that has hardly begun continues in the new phase.
func (r *run) enter(phase load.Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markLocked(phase)
	if r.now()-r.point.Start < shortest {
		r.point.Phase = phase
		return
	}
	r.closePointLocked(phase)
}

// markLocked notes what has been counted when a phase begins.
func (r *run) markLocked(phase load.Phase) {
	now := mark{at: r.now()}
	for i := range r.result.Targets {
		now.byTarget = append(now.byTarget, r.result.Targets[i].Counts)
	}
	r.marks[phase] = now
}

// closePoint ends the current point of the time series, and begins the next.
func (r *run) closePoint(next load.Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closePointLocked(next)
}

func (r *run) closePointLocked(next load.Phase) {
	p, n := r.point, &r.result.Counts
	p.End, p.Active = r.now(), r.open
	p.Sent, p.Received, p.Completed = n.Sent-r.before.Sent, n.Received-r.before.Received, n.Complete-r.before.Complete
	p.Failures, p.Connects = n.Failures()-r.before.Failures(), r.joined-r.before.joined
	p.P50, p.P90, p.P99, p.Max = r.recent.Quantile(0.5), r.recent.Quantile(0.9), r.recent.Quantile(0.99), r.recent.Max()
	r.result.Series = append(r.result.Series, p)
	r.point, r.before, r.recent = load.Point{Start: p.End, Phase: next}, basis{*n, r.joined}, load.Times{}
}

// watch reports progress and closes points of the time series until all streams have ended.
func (r *run) watch(over <-chan struct{}) {
	ticker := time.NewTicker(r.Interval)
	defer ticker.Stop()
	points := time.NewTicker(time.Second)
	defer points.Stop()
	steady, draining := time.After(r.Spread), time.After(r.Spread+r.For)
	phase := load.Connecting
	begin := func(next load.Phase) {
		phase = next
		r.report(phase, true)
	}
	enter := func(next load.Phase) {
		r.enter(next)
		points.Reset(time.Second) // which would soon close the point that begins
		begin(next)
	}
	begin(phase)
	for {
		select {
		case <-over:
			if phase == load.Steady {
				r.locked(func() { r.markLocked(load.Draining) }) // which is over at once
			}
			begin(load.Done)
			return
		case <-steady:
			enter(load.Steady)
		case <-draining:
			if phase == load.Connecting { // both are due
				steady = nil
				enter(load.Steady)
			}
			enter(load.Draining)
		case <-points.C:
			r.closePoint(phase)
		case <-ticker.C:
			r.report(phase, false)
		}
	}
}

// report reports progress.
func (r *run) report(phase load.Phase, begins bool) {
	r.mu.Lock()
	f := &r.result.Figures
	p := load.Progress{
		Phase: phase, Begins: begins, Elapsed: r.now(), Connections: f.Connections, Connected: int(r.open), ConnectFailures: int64(f.ConnectFailures) + f.Refused,
		Sent: f.Sent, Received: f.Received, Failed: f.Failed, Sessions: f.Complete, P50: f.Latency.Quantile(0.5), P99: f.Latency.Quantile(0.99),
	}
	r.mu.Unlock()
	if seconds := (p.Elapsed - r.shown.Elapsed).Seconds(); seconds > 0 {
		p.Rate = float64(p.Received-r.shown.Received) / seconds
	}
	r.shown = p
	r.Progress(p)
}
