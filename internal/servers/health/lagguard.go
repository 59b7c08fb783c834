package health

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// A server that gets more sessions than it can serve in time refuses none: its results come later and later. The lag guard keeps new sessions
// away from it by a ceiling, as congestion control keeps packets from a full link:
//
//   - While results come later than the limit, no session begins: the ceiling falls to lagFactor of what is in use, and follows that down.
//   - Once they come within half of the limit, it rises one by one up to what was too many last time. Beyond that, the server is probed: rarely
//     where that has failed, and faster with each step that holds. Sessions last long, and the guard ends none, so a failed probe is dear.
//   - In between the ceiling stays. Only if lag grows there though no session was added, the sessions in use are too many already: one less may
//     begin, before it is too late.
//
// Lag follows the number of sessions with a delay, since what the server owes adds up. So after each step down the guard waits for what comes
// of it.

const (
	lagOverFor    = 3                // readings in a row over the limit that lower the ceiling
	lagOverfull   = 6                // after which a session should leave
	lagFactor     = 0.75             // of the sessions in use
	lagRaiseEvery = 2 * time.Second  // between two steps up below what was too many
	lagSettle     = 10 * time.Second // after a step down
	lagProbeEvery = time.Minute      // between two steps beyond what was too many: doubled when one fails, halved when one holds
	lagProbeLast  = 5 * time.Minute
	lagProbeLeast = 5 * time.Second
	lagForget     = 30 * time.Minute // without a ceiling, after which it is forgotten what was too many
	lagTrend      = 10               // readings that a trend is taken from
	lagTrendSlope = 8                // lag changes if it does so by a part of the limit within lagTrend: the limit divided by this
)

// LagReading is how late a server's results come, at one instant.
type LagReading struct {
	// Lag is the 95th percentile over the server's sessions.
	Lag time.Duration
	// Worst are the sessions with most lag, the first the most, and not all if there are many.
	Worst []SessionLag
	// InUse is how many sessions there are, resets included, and Cap how many there may be.
	InUse, Cap int
}

// SessionLag is how late the results of one session come.
type SessionLag struct {
	Lag    time.Duration
	Client Client
}

// lagGuard is the ceiling that the lag of a server's sessions sets.
type lagGuard struct {
	ceiling int           // 0 for none
	reason  string        // of the ceiling
	over    int           // readings over the limit in a row
	tooMany int           // the fewest sessions that were too many; 0 if that is not known
	probe   time.Duration // between two steps up from there
	moved   Instant       // when the ceiling was last changed
	settled Instant       // no step up before, nor one down below the limit
	drains  bool          // lag is to fall, since it grew
	free    Instant       // when the last ceiling was lifted

	past  [lagTrend]lagPast // a ring
	reads int
}

type lagPast struct {
	lag   time.Duration
	inUse int
}

// LagChange tells that results come too late, so that no session begins above a ceiling; or, with a ceiling of 0, that the server takes as many as
// its cap again.
type LagChange struct {
	Ceiling, Cap int
	Reason       string
}

func (LagChange) change() {}

// SessionsLag takes a reading of how late results come, about once a second. It returns whether the ceiling has changed, and whether results have
// been too late for long although no session began, so that it would help if one left.
func (t *Tracker) SessionsLag(r LagReading, now Instant) (changed, overfull bool) {
	limit := t.limits.LagLimit
	if limit == 0 { // it was removed meanwhile
		return false, false
	}
	r.Lag = min(r.Lag, r.ofTwo(&t.sessions.clientele))
	before := t.lag.ceiling
	if t.lag.read(&r, limit, now) {
		t.changes = append(t.changes, LagChange{t.lag.ceiling, r.Cap, t.lag.reason})
	}
	return t.lag.ceiling != before, t.lag.over >= lagOverfull && r.InUse > t.lag.ceiling
}

// ofTwo returns the lag that sessions of two clients have, if there are several, and otherwise two sessions: one may have sent what no server
// answers.
func (r *LagReading) ofTwo(c *clientele) time.Duration {
	for i := 1; i < len(r.Worst); i++ {
		if !c.several() || !c.same(r.Worst[0].Client, r.Worst[i].Client) {
			return r.Worst[i].Lag
		}
	}
	return 0
}

// forgetLag notes that lag so far says nothing about the server.
func (t *Tracker) forgetLag() {
	if t.lag.ceiling > 0 {
		t.changes = append(t.changes, LagChange{})
	}
	t.lag = lagGuard{}
}

// read takes a reading. It returns whether the server has just become too late, or is free of a ceiling.
func (g *lagGuard) read(r *LagReading, limit time.Duration, now Instant) (changed bool) {
	lately, most, _ := g.trend(lagTrend / 2)
	before, _, least := g.trend(lagTrend)
	g.past[g.reads%lagTrend] = lagPast{r.Lag, r.InUse}
	g.reads++
	if g.over++; r.Lag <= limit {
		g.over = 0
	}
	part := limit / lagTrendSlope
	switch {
	case g.over >= lagOverFor:
		began := g.over == lagOverFor
		if began || r.Lag > lately+part {
			g.blame(max(r.InUse, most), began)
		}
		if to := max(1, int(lagFactor*float64(r.InUse))); g.ceiling == 0 || to < g.ceiling {
			g.ceiling = to
		}
		if began {
			g.reason = fmt.Sprintf("results came %s late at %s, over lag-limit %s",
				figures.Seconds(r.Lag.Seconds()), figures.Plural(r.InUse, "session"), limit)
		}
		g.drains, g.moved, g.settled = true, now, now+Instant(lagSettle)
		return began
	case g.over > 0:
	case r.Lag > limit/2:
		near := r.Lag > limit*3/4 || r.Lag > before+part && r.InUse <= least
		if g.ceiling == 0 || r.InUse > g.ceiling || now < g.settled || r.Lag < before-part || !near && !g.drains {
			return false
		}
		if near {
			g.blame(r.InUse, !g.drains)
		}
		g.ceiling, g.drains, g.moved, g.settled = max(1, r.InUse-1), true, now, now+Instant(lagSettle)
	default:
		g.drains = false
		return g.raise(r, limit, now)
	}
	return false
}

// blame notes that so many sessions are too many. first tells that it was not known before that lag would grow with them.
func (g *lagGuard) blame(n int, first bool) {
	n = max(n, 2)
	switch {
	case g.tooMany == 0 || n < int(lagFactor*float64(g.tooMany)): // nothing is known of so few
		g.probe = lagProbeEvery
	case first:
		g.probe = min(max(2*g.probe, lagProbeEvery), lagProbeLast)
	}
	if g.tooMany == 0 || n < g.tooMany {
		g.tooMany = n
	}
}

// raise raises the ceiling by a step when it is time, until it reaches the cap. It returns whether it has lifted the ceiling.
func (g *lagGuard) raise(r *LagReading, limit time.Duration, now Instant) (lifted bool) {
	if g.ceiling == 0 {
		if g.tooMany > 0 && time.Duration(now-g.free) > lagForget {
			g.tooMany = 0
		}
		return false
	}
	next, wait, most := max(g.ceiling, r.InUse)+1, lagRaiseEvery, limit/2
	if next >= g.tooMany {
		wait, most = g.probe, limit/4
	}
	if now < g.settled || time.Duration(now-g.moved) < wait || r.Lag > most {
		return false
	}
	if g.ceiling >= g.tooMany && r.InUse >= g.ceiling { // the last step holds
		g.tooMany, g.probe = g.ceiling+1, max(g.probe/2, lagProbeLeast)
	}
	if g.ceiling, g.moved = next, now; next >= r.Cap {
		g.ceiling, g.free = 0, now
	}
	return g.ceiling == 0
}

// trend returns the lag of so many readings ago, and the most and fewest sessions since then.
func (g *lagGuard) trend(readings int) (lag time.Duration, most, least int) {
	n := min(readings, g.reads)
	for i := g.reads - n; i < g.reads; i++ {
		p := g.past[i%lagTrend]
		if i == g.reads-n {
			lag, most, least = p.lag, p.inUse, p.inUse
		}
		most, least = max(most, p.inUse), min(least, p.inUse)
	}
	return lag, most, least
}
