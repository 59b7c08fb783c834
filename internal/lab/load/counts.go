package load

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// counts holds what the clients of a lane with the same target have counted since the run last collected it.
type counts struct {
	Counts
	Distributions
	Errors map[string]int64          // what went wrong
	Closes map[frame.CloseCode]int64 // what the servers closed with
}

// Counts are those of the figures that are single numbers.
type Counts struct {
	// Connected is how many clients connected, and ConnectFailures how many could not connect their first session.
	Connected       int `json:"connected"`
	ConnectFailures int `json:"connect_failures"`

	// Sent and Received count messages of the steady part and their correct echoes. They leave out the first message of a
	// session, which the client sends as soon as it is connected. With [Speech], they count all messages.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// Unsent counts messages that were due but could not be sent in time: the load was more than the server could take or
	// the load generator could send. Latency does not include them.
	Unsent int64 `json:"unsent"`
	// Lost counts messages, the first of a session included, whose echo never came, or came out of order, on connections
	// that did not fail.
	Lost int64 `json:"lost"`
	// Mixed counts wrong messages: altered, another client's, or received twice.
	Mixed int64 `json:"mixed"`
	// Abandoned counts messages, the first of a session included, whose echo had not come when their connection failed.
	Abandoned int64 `json:"abandoned"`

	// Begun counts all sessions that clients began; it is the sum of ConnectFailures and the other counts of sessions, but for those that have only
	// just begun.
	Begun int64 `json:"sessions_begun"`
	// Complete counts sessions that ended in order, before the run did.
	Complete int64 `json:"sessions"`
	// Failed counts connections that ended before the client wanted them to.
	Failed int64 `json:"failed"`
	// Refused counts sessions that could not connect, without clients' first sessions.
	Refused int64 `json:"sessions_refused"`
	// Cut counts sessions that the end of the run ended.
	Cut int64 `json:"sessions_cut"`

	joined, parted int64 // connections that were established, and that have ended

	// By the stage's clock.
	lastConnect int64 // when the last client was connected
	lastEcho    int64 // when the last first echo was complete
}

// Distributions are those of the figures that are durations.
type Distributions struct {
	// Latency is the time from when a message was due until its echo was complete. With [Speech], it is the lag: from when audio was due until a result
	// came that answers it.
	Latency Times `json:"latency_ms"`
	// Connect is the time from when a client should have connected until it was connected, and FirstEcho until its first echo
	// was complete. Both cover only clients' first sessions.
	Connect   Times `json:"connect_ms"`
	FirstEcho Times `json:"first_echo_ms"`
	// ConnectAgain is the time from when a further session began to dial until it was connected, and ReplyAgain until its
	// first reply was complete.
	ConnectAgain Times `json:"connect_again_ms"`
	ReplyAgain   Times `json:"first_echo_again_ms"`
}

func newCounts() *counts {
	return &counts{Errors: make(map[string]int64), Closes: make(map[frame.CloseCode]int64)}
}

// error counts an error by its kind.
func (c *counts) error(kind string) { c.Errors[kind]++ }

// lose counts messages whose answers were skipped, or did not come in time.
func (c *counts) lose(messages int64) {
	if messages > 0 {
		c.Lost += messages
		c.Errors[missing] += messages
	}
}

// late takes back one lost message, since its answer has come after all.
func (c *counts) late() {
	c.Errors[outOfOrder]++
	c.Errors[missing]-- // negative if the run has already collected the loss
}

// add adds everything that other holds.
func (c *counts) add(other *counts) {
	c.Counts.add(&other.Counts)
	mine := c.Distributions.all()
	for i, times := range other.Distributions.all() {
		mine[i].add(*times)
	}
	for kind, n := range other.Errors {
		if c.Errors[kind] += n; c.Errors[kind] == 0 {
			delete(c.Errors, kind)
		}
	}
	for code, n := range other.Closes {
		c.Closes[code] += n
	}
}

// clear sets all counts to zero, and keeps the memory.
func (c *counts) clear() {
	c.Counts = Counts{}
	for _, times := range c.Distributions.all() {
		times.clear()
	}
	clear(c.Errors)
	clear(c.Closes)
}

func (d *Distributions) all() [5]*Times {
	return [...]*Times{&d.Latency, &d.Connect, &d.FirstEcho, &d.ConnectAgain, &d.ReplyAgain}
}

func (n *Counts) add(other *Counts) {
	n.Sent += other.Sent
	n.Received += other.Received
	n.Unsent += other.Unsent
	n.Lost += other.Lost
	n.Mixed += other.Mixed
	n.Abandoned += other.Abandoned
	n.Connected += other.Connected
	n.ConnectFailures += other.ConnectFailures
	n.joined += other.joined
	n.parted += other.parted
	n.Begun += other.Begun
	n.Complete += other.Complete
	n.Failed += other.Failed
	n.Refused += other.Refused
	n.Cut += other.Cut
	n.lastConnect = max(n.lastConnect, other.lastConnect)
	n.lastEcho = max(n.lastEcho, other.lastEcho)
}

// Failures returns how many sessions failed or could not connect.
func (n *Counts) Failures() int64 { return int64(n.ConnectFailures) + n.Refused + n.Failed }

// collection is what a run has collected from its lanes. The goroutine that called Run owns it.
//
// Each lane counts into memory of its own. The run takes that memory a few times a second, and gives the lane empty memory
// instead. So a time series costs nothing where messages are sent and received.
type collection struct {
	total    *counts
	byTarget []*counts // if there is only one target, its counts are total
	points   []Point

	spare []*counts // empty

	point    Point // the current one
	current  pointBasis
	previous pointBasis // of the previous point
}

// pointBasis holds the counts that a point is computed from.
type pointBasis struct {
	Counts
	latency Times
}

func (b *pointBasis) add(n *Counts, latency Times) {
	b.Counts.add(n)
	b.latency.add(latency)
}

func newCollection(targets int) collection {
	c := collection{total: newCounts()}
	if targets == 1 {
		c.byTarget = []*counts{c.total}
		return c
	}
	for range targets {
		c.byTarget = append(c.byTarget, newCounts())
	}
	return c
}

// take returns empty counts to swap for full ones.
func (c *collection) take() *counts {
	if n := len(c.spare); n > 0 {
		empty := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return empty
	}
	return newCounts()
}

// put adds the counts of a lane, and empties them to use them again.
func (c *collection) put(target int, full *counts) {
	c.total.add(full)
	if len(c.byTarget) > 1 {
		c.byTarget[target].add(full)
	}
	c.current.add(&full.Counts, full.Latency)
	full.clear()
	c.spare = append(c.spare, full)
}

// close ends the current point and begins the next. If the current point is shorter than least, it continues instead.
func (c *collection) close(now, least time.Duration, next Phase) {
	if now-c.point.Start < least {
		c.point.Phase = next
		return
	}
	c.points = append(c.points, c.point.filled(now, c.active(), c.current))
	c.previous, c.current = c.current, c.previous
	c.current.latency.clear()
	c.current.Counts = Counts{}
	c.point = Point{Start: now, Phase: next}
}

// active returns how many connections are open.
func (c *collection) active() int64 { return c.total.joined - c.total.parted }

// finish ends the last point, and adds it to the one before if it is shorter than least. active is the number of connections
// before the run closed them.
func (c *collection) finish(now, least time.Duration, active int64) []Point {
	if last := len(c.points) - 1; last >= 0 && now-c.point.Start < least {
		c.previous.add(&c.current.Counts, c.current.latency)
		c.points[last] = c.points[last].filled(now, active, c.previous)
	} else {
		c.close(now, 0, Done)
	}
	c.points[len(c.points)-1].Active = active
	return slices.Clip(c.points)
}

// Point is one point of the time series. It covers about one sampling interval.
type Point struct {
	// Start and End are the times since clients began to connect.
	Start, End time.Duration
	// Phase is the phase of the run at the start.
	Phase Phase
	// Active is the number of connections that were open at the end. For the last point it is the number before the run closed
	// them.
	Active int64

	Sent      int64 // messages of the steady part
	Received  int64 // their right echoes
	Connects  int64 // connections that were established
	Failures  int64 // sessions that failed, or could not connect
	Completed int64 // sessions that ended in order before the run was over
	Lost      int64
	Mixed     int64

	// Quantiles of the latencies of the echoes; 0 if there were none.
	P50, P90, P99, Max time.Duration
}

// filled returns the point with the counts until now.
func (p Point) filled(now time.Duration, active int64, basis pointBasis) Point {
	n := &basis.Counts
	p.End, p.Active = now, active
	p.Sent, p.Received, p.Lost, p.Mixed = n.Sent, n.Received, n.Lost, n.Mixed
	p.Connects, p.Failures, p.Completed = n.joined, n.Failures(), n.Complete
	t := basis.latency
	p.P50, p.P90, p.P99, p.Max = t.Quantile(0.5), t.Quantile(0.9), t.Quantile(0.99), t.Max()
	return p
}

// PerSecond returns the rate per second of one of the point's counts.
func (p Point) PerSecond(things int64) float64 {
	if p.End <= p.Start {
		return 0
	}
	return float64(things) / (p.End - p.Start).Seconds()
}

// Times is a distribution of durations, exact to three digits. The zero value is empty; it allocates memory for its first
// duration. It is not safe for concurrent use. Copies share the durations.
type Times struct{ histogram *hdrhistogram.Histogram }

// The range of a distribution. A duration outside of it counts as the nearest one within.
const (
	shortestTime = int64(100 * time.Nanosecond)
	longestTime  = int64(time.Hour)
)

// Record adds a duration in nanoseconds. It allocates only for the first one.
func (t *Times) Record(nanoseconds int64) {
	if t.histogram == nil {
		t.histogram = hdrhistogram.New(shortestTime, longestTime, 3)
	}
	_ = t.histogram.RecordValue(min(max(nanoseconds, 0), longestTime)) // always within the range
}

// add adds everything that other holds.
func (t *Times) add(other Times) {
	if other.Count() == 0 {
		return
	}
	if t.histogram == nil {
		t.histogram = hdrhistogram.New(shortestTime, longestTime, 3)
	}
	t.histogram.Merge(other.histogram)
}

// clear makes the distribution empty and keeps its memory.
func (t *Times) clear() {
	if t.Count() > 0 {
		t.histogram.Reset()
	}
}

// Count returns the number of durations.
func (t Times) Count() int64 {
	if t.histogram == nil {
		return 0
	}
	return t.histogram.TotalCount()
}

// Quantile returns the duration that a share q of all durations, from 0 to 1, does not exceed; 0 if there are none.
func (t Times) Quantile(q float64) time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.ValueAtQuantile(q * 100))
}

// Mean returns the mean of the durations, 0 when there are none.
func (t Times) Mean() time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.Mean())
}

// Max returns the longest duration, 0 when there are none.
func (t Times) Max() time.Duration {
	if t.Count() == 0 {
		return 0
	}
	return time.Duration(t.histogram.Max())
}

// Summary is a distribution in a few numbers, in milliseconds.
type Summary struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	Max   float64 `json:"max"`
}

// Summary returns the distribution's summary.
func (t Times) Summary() Summary {
	at := func(q float64) float64 { return milliseconds(t.Quantile(q)) }
	return Summary{t.Count(), milliseconds(t.Mean()), at(0.5), at(0.9), at(0.95), at(0.99), at(0.999), milliseconds(t.Max())}
}

// MarshalJSON writes the summary.
func (t Times) MarshalJSON() ([]byte, error) { return json.Marshal(t.Summary()) }

// Step is a place on the curve of a distribution.
type Step struct {
	Quantile float64 // the share, from 0 to 1, of all durations
	Time     time.Duration
}

// stepsPerHalf is the number of steps of a curve until the remaining share of durations has halved.
const stepsPerHalf = 5

// Curve returns the distribution as a curve. Its steps get denser towards the longest duration, which is the last step. It
// has no steps if there are no durations.
func (t Times) Curve() []Step {
	if t.Count() == 0 {
		return nil
	}
	brackets := t.histogram.CumulativeDistributionWithTicks(stepsPerHalf)
	steps := make([]Step, len(brackets))
	for i, b := range brackets {
		steps[i] = Step{Quantile: b.Quantile / 100, Time: time.Duration(b.ValueAt)}
	}
	return steps
}
