package load

import (
	"slices"
	"time"
)

// collection is what a run has collected from its lanes. It is owned by the goroutine that called Run.
//
// Lanes count into memory of their own, which is taken from them a few times a second and replaced with empty memory. So
// a time series costs nothing where messages are sent and received.
type collection struct {
	total    *counts
	byTarget []*counts // of a single target, the total itself
	points   []Point

	spare []*counts // empty

	point    Point // that is being collected
	current  pointBasis
	previous pointBasis // of the point before
}

// pointBasis is what a point is made of.
type pointBasis struct {
	numbers numbers
	latency Times
}

func (b *pointBasis) add(n *numbers, latency Times) {
	b.numbers.add(n)
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

// put adds what was collected from a lane, and empties it to be used again.
func (c *collection) put(target int, full *counts) {
	c.total.add(full)
	if len(c.byTarget) > 1 {
		c.byTarget[target].add(full)
	}
	c.current.add(&full.numbers, full.Latency)
	full.clear()
	c.spare = append(c.spare, full)
}

// close ends the present point and begins the next. A point that is shorter than least goes on instead.
func (c *collection) close(now, least time.Duration, next Phase) {
	if now-c.point.Start < least {
		c.point.Phase = next
		return
	}
	c.points = append(c.points, c.point.filled(now, c.active(), c.current))
	c.previous, c.current = c.current, c.previous
	c.current.latency.clear()
	c.current.numbers = numbers{}
	c.point = Point{Start: now, Phase: next}
}

// active returns how many connections are open.
func (c *collection) active() int64 { return c.total.Joined - c.total.Parted }

// finish ends the last point. One that is shorter than least is added to the one before it. The number of active connections
// is that from before the run closed them.
func (c *collection) finish(now, least time.Duration, active int64) []Point {
	if last := len(c.points) - 1; last >= 0 && now-c.point.Start < least {
		c.previous.add(&c.current.numbers, c.current.latency)
		c.points[last] = c.points[last].filled(now, active, c.previous)
	} else {
		c.close(now, 0, Done)
	}
	c.points[len(c.points)-1].Active = active
	return slices.Clip(c.points)
}

// Point is what a run has shown in a second or so of its time.
type Point struct {
	// Start and End are the times since clients began to connect.
	Start, End time.Duration
	// Phase is the phase of the run at the start.
	Phase Phase
	// Active is the number of connections that were open at the end; of the last point, before the run closed them.
	Active int64

	Sent      int64 // messages of the steady part
	Received  int64 // their right echoes
	Connects  int64 // connections that were established
	Failures  int64 // sessions that failed, or could not connect
	Completed int64 // sessions that were ended in order before the run was over
	Lost      int64
	Mixed     int64

	// Quantiles of the latencies of what was received; 0 when nothing was.
	P50, P90, P99, Max time.Duration
}

// filled returns the point with what was counted until now.
func (p Point) filled(now time.Duration, active int64, basis pointBasis) Point {
	n := &basis.numbers
	p.End, p.Active = now, active
	p.Sent, p.Received, p.Lost, p.Mixed = n.Sent, n.Received, n.Lost, n.Mixed
	p.Connects, p.Failures, p.Completed = n.Joined, n.failures(), n.Complete
	t := basis.latency
	p.P50, p.P90, p.P99, p.Max = t.Quantile(0.5), t.Quantile(0.9), t.Quantile(0.99), t.Max()
	return p
}

// PerSecond returns how many of the point's so many things there were in a second.
func (p Point) PerSecond(things int64) float64 {
	if p.End <= p.Start {
		return 0
	}
	return float64(things) / (p.End - p.Start).Seconds()
}
