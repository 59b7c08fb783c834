package load

import (
	"slices"
	"time"
)

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

// put adds the counts of a lane, and empties them to use them again.
func (c *collection) put(target int, full *counts) {
	c.total.add(full)
	if len(c.byTarget) > 1 {
		c.byTarget[target].add(full)
	}
	c.current.add(&full.numbers, full.Latency)
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
	c.current.numbers = numbers{}
	c.point = Point{Start: now, Phase: next}
}

// active returns how many connections are open.
func (c *collection) active() int64 { return c.total.Joined - c.total.Parted }

// finish ends the last point, and adds it to the one before if it is shorter than least. active is the number of connections
// before the run closed them.
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
	n := &basis.numbers
	p.End, p.Active = now, active
	p.Sent, p.Received, p.Lost, p.Mixed = n.Sent, n.Received, n.Lost, n.Mixed
	p.Connects, p.Failures, p.Completed = n.Joined, n.failures(), n.Complete
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
