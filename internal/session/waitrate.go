package session

import (
	"math"
	"time"
)

// waitRate expects how long clients wait in a service's queue, from how many leases ended lately: each serves the next client. It is a value
// without a clock; whoever samples the leases owns it.
type waitRate struct {
	at    time.Time // of the last sample; zero for none
	ended uint64    // leases that had ended by then
	seen  uint64    // leases whose ends were seen, up to enoughEnds
	// The leases that ended and the seconds in which they did, both weighted: what was a halfLife ago counts a half.
	leases, seconds float64
}

const (
	halfLife   = 20 * time.Second
	enoughEnds = 3               // before them, nothing is expected
	maxGap     = 2 * time.Minute // after a longer time without samples, what was seen before says nothing
	maxWait    = 24 * time.Hour  // a longer time means that nobody knows
)

// sample takes the number of leases that have ended since the service began. It may have become smaller, if backends were removed.
func (r *waitRate) sample(now time.Time, ended uint64) {
	gap := now.Sub(r.at)
	if r.at.IsZero() || gap > maxGap || ended < r.ended {
		*r = waitRate{at: now, ended: ended}
		return
	}
	if gap <= 0 {
		return
	}
	kept := math.Exp2(-float64(gap) / float64(halfLife))
	n := ended - r.ended
	r.leases, r.seconds = r.leases*kept+float64(n), r.seconds*kept+gap.Seconds()
	r.seen = min(r.seen+n, enoughEnds)
	r.at, r.ended = now, ended
}

// wait returns how many seconds a client at this place of the queue waits; -1 if nobody knows.
func (r *waitRate) wait(place int) int {
	if r.seen < enoughEnds || r.leases <= 0 {
		return -1
	}
	wait := math.Ceil(float64(place) * r.seconds / r.leases)
	if wait > maxWait.Seconds() {
		return -1
	}
	return int(wait)
}
