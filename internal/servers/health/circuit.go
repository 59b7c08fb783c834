package health

import (
	"math/rand/v2"
	"time"
)

const (
	// FirstBackoff is the upper bound of the wait after the first failure. It doubles with each further one.
	FirstBackoff = 250 * time.Millisecond
	// LastBackoff is the largest upper bound.
	LastBackoff = 10 * time.Second
	// NeededBackoff is the longest wait while sessions have nowhere else to go: they wait for a time, and one dial a second costs little.
	NeededBackoff = time.Second
)

// CircuitState reports whether a server gets sessions.
type CircuitState uint8

// The states of a circuit.
const (
	// Closed: sessions may begin.
	Closed CircuitState = iota
	// HalfOpen: no session begins, and one connection is dialed to find out whether the server works again.
	HalfOpen
	// Open: no session begins, and nothing is dialed for a while.
	Open
)

// String returns the state's name as it is used in statistics and logs.
func (s CircuitState) String() string { return [...]string{"closed", "half-open", "open"}[s] }

// circuit decides from failures when to dial again and whether sessions may begin:
//
//	          failures in a row, or broken sessions
//	Closed ------------------------------------------> Open <-+
//	   ^                                                |     | the trial fails
//	   |  the trial succeeds                    backoff |     |
//	   +------------------------------------------- HalfOpen -+
type circuit struct {
	after  int    // this many failures in a row open it
	random random // for the backoff

	state      CircuitState
	failures   int     // failed dials in a row
	trips      int     // times that broken sessions have opened it since a session last went well
	failedAt   Instant // when the last failure was counted
	retryAt    Instant // nothing is dialed before, unless sessions need the server
	countAfter Instant // a failure before this time belongs to the last one that was counted
}

// fail counts a connection that could not be established. Several that fail together count once.
func (c *circuit) fail(now Instant) {
	if now < c.countAfter {
		return
	}
	c.failures++
	c.backOff(now)
	if c.state == HalfOpen || c.failures >= c.after {
		c.state = Open
	}
}

// trip opens the circuit because of broken sessions, although dialing may work. Unless they were those of many clients, it is tried again
// within NeededBackoff: perhaps these clients bring it about, and others come.
func (c *circuit) trip(now Instant, many bool) {
	c.trips++
	c.state = Open
	c.backOff(now)
	if !many {
		c.retryAt = min(c.retryAt, now+Instant(NeededBackoff))
		c.countAfter = c.retryAt
	}
}

// backOff sets the time of the next attempt: a random fraction (full jitter) of a time that doubles with each failure in a row.
func (c *circuit) backOff(now Instant) {
	c.failedAt = now
	doublings := min(max(c.failures+c.trips-1, 0), 10)
	c.retryAt = now + Instant(c.random.below(min(LastBackoff, FirstBackoff<<doublings)))
	c.countAfter = c.retryAt
}

// holdOff delays the next attempt until a connection that was just established has passed its probation. Failures count
// meanwhile: that the connection is lost is one.
func (c *circuit) holdOff(now Instant) { c.retryAt = max(c.retryAt, now+Instant(Probation)) }

// wait returns for how long nothing may be dialed. When that time is over, an open circuit becomes half-open. With needed, sessions wait that
// have nowhere else to go.
func (c *circuit) wait(now Instant, needed bool) time.Duration {
	if early := c.failedAt + Instant(NeededBackoff); needed && c.state == Open && early < c.retryAt {
		c.retryAt = max(now, early)
		c.countAfter = c.retryAt // what fails from then on is a new failure
	}
	if now < c.retryAt {
		return time.Duration(c.retryAt - now)
	}
	if c.state == Open {
		c.state = HalfOpen
	}
	return 0
}

// established closes a half-open circuit, because a connection was established, and forgets the failures of a closed one. It
// returns whether it has closed the circuit. A connection that was being dialed when the circuit opened proves nothing.
func (c *circuit) established() (closed bool) {
	if c.state == Open {
		return false
	}
	closed = c.state == HalfOpen
	c.state, c.failures, c.retryAt, c.countAfter = Closed, 0, 0, 0
	return closed
}

// failing reports whether the last dial has failed, or the circuit is not closed.
func (c *circuit) failing() bool { return c.failures > 0 || c.state != Closed }

// renew forgets all failures, because the server is dialed with other settings from now on. An open circuit stays open until a
// connection was established with these, which may be tried at once.
func (c *circuit) renew() { c.failures, c.trips, c.retryAt, c.countAfter = 0, 0, 0, 0 }

// sessionWentWell forgets how often broken sessions have opened the circuit.
func (c *circuit) sessionWentWell() { c.trips = 0 }

// random returns a random time of at least 0 and less than the one given. Nil is a good source of randomness; tests have others.
type random func(time.Duration) time.Duration

func (r random) below(d time.Duration) time.Duration {
	if r == nil {
		return rand.N(d)
	}
	return r(d)
}

// jittered returns a time between three quarters of d and d, so that what began together does not continue together.
func (r random) jittered(d time.Duration) time.Duration { return d - r.below(d/4+1) }

// Probation is how long a connection must last, unless it serves a session before, not to count as one that could not be
// established.
const Probation = time.Second

// Strikes is how many connections in a row must be lost on probation to make the server suspect: one that accepts connections
// only to close them must not be flooded with more.
const Strikes = 3

// probation counts the connections that are lost soon after they were established.
type probation struct {
	lost     int     // in a row
	lostAt   Instant // when the last of them was lost
	onTrial  bool    // a connection that was dialed after that is on probation
	passesAt Instant // when that connection will have passed
}

// suspect reports whether the server accepts connections only to close them.
func (p *probation) suspect() bool { return p.lost >= Strikes }

// lose counts a connection that was lost on probation.
func (p *probation) lose(now Instant) { p.lost, p.lostAt, p.onTrial = p.lost+1, now, false }

// establish puts a connection, which was dialed from began on, on trial if one is needed. One that was dialed before the last
// loss may be lost already.
func (p *probation) establish(began, now Instant) {
	if p.lost > 0 && !p.onTrial && began >= p.lostAt {
		p.onTrial, p.passesAt = true, now+Instant(Probation)
	}
}

// passed reports whether the connection on trial has lasted long enough.
func (p *probation) passed(now Instant) bool { return p.lost > 0 && p.onTrial && now >= p.passesAt }
