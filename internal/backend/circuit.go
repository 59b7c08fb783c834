package backend

import (
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 250 * time.Millisecond // upper bound of the wait after the first failure; doubles
	lastBackoff  = 15 * time.Second
)

// CircuitState tells whether a backend gets sessions.
type CircuitState uint8

// The states of a circuit.
const (
	// Closed: it does.
	Closed CircuitState = iota
	// HalfOpen: it does not, but a connection is being dialed to see whether it can.
	HalfOpen
	// Open: it does not, and is left alone for a while.
	Open
)

// String returns the state's name as it is used in statistics and logs.
func (s CircuitState) String() string { return [...]string{"closed", "half-open", "open"}[s] }

// circuit decides from failures when to dial again and whether sessions may begin. It holds no clock. All of it is owned by
// the worker.
type circuit struct {
	after int // so many failures in a row open it; static

	state    CircuitState
	failures int       // to dial, in a row
	trips    int       // openings without a good session since
	retryAt  time.Time // no dialing before
	countAt  time.Time // what fails before belongs to the failure that was counted last
}

// failed notes that a connection could not be established. Several that fail together count once.
func (c *circuit) failed(now time.Time) {
	if now.Before(c.countAt) {
		return
	}
	c.failures++
	c.pause(now)
	if c.state == HalfOpen || c.failures >= c.after {
		c.state = Open
	}
}

// trip opens the circuit because sessions were broken, whatever dialing says.
func (c *circuit) trip(now time.Time) {
	c.trips++
	c.state = Open
	c.pause(now)
}

// pause sets the time of the next attempt: a random part (full jitter) of a time that doubles with each failure in a row.
func (c *circuit) pause(now time.Time) {
	doublings := min(max(c.failures+c.trips-1, 0), 10)
	c.retryAt = now.Add(rand.N(min(lastBackoff, firstBackoff<<doublings)))
	c.countAt = c.retryAt
}

// hold puts off the next attempt while a connection that was established is on probation. That it is lost is a failure.
func (c *circuit) hold(now time.Time) {
	if end := now.Add(probation); end.After(c.retryAt) {
		c.retryAt = end
	}
}

// wait returns how long there must be no dialing, and otherwise lets an open circuit have its trial.
func (c *circuit) wait(now time.Time) time.Duration {
	if wait := c.retryAt.Sub(now); wait > 0 {
		return wait
	}
	if c.state == Open {
		c.state = HalfOpen
	}
	return 0
}

// established notes that a connection was established, and returns whether that has closed the circuit. One that was being
// dialed when the circuit opened proves nothing.
func (c *circuit) established() bool {
	if c.state == Open {
		return false
	}
	closed := c.state == HalfOpen
	c.state, c.failures, c.retryAt, c.countAt = Closed, 0, time.Time{}, time.Time{}
	return closed
}

// renew forgets all failures, because the backend is dialed in another way from now on. An open circuit stays open until a connection
// was established in that way, which may be tried at once.
func (c *circuit) renew() {
	c.failures, c.trips, c.retryAt, c.countAt = 0, 0, time.Time{}, time.Time{}
}

// served notes that a session ended well.
func (c *circuit) served() { c.trips = 0 }
