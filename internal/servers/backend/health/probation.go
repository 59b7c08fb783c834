package health

import "time"

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
