package health

import (
	"fmt"
	"math"
	"time"
)

// A server on which far more sessions fail than on its peers gets no new ones for a while. What the peers do tells a sick server
// from a bad client: a client whose sessions fail wherever they run makes no server worse than the others. So once a server is
// ejected, and its clients go to its peers, it comes back at once if sessions fail there as well.

const (
	outlierHalfLife = 10 * time.Second    // after which a session counts half
	outlierVotes    = 2 * outlierHalfLife // within which as many clients' sessions must have failed as sessions, at least
	outlierShare    = 0.5                 // of the sessions that began must have failed
	outlierFactor   = 2                   // times the share of the peers' sessions that failed
	outlierPause    = 5 * time.Second     // for how long the server is ejected; as much more each time
	outlierMaxPause = time.Minute
	outlierCompare  = 250 * time.Millisecond // between two comparisons of a server that is ejected
	outlierForget   = 5 * time.Minute        // without being ejected, after which the first time is the first again
)

// Sessions counts the sessions of a server that have begun and failed lately: the older they are, the less they count.
type Sessions struct {
	Began, Failed float64 // as of the time at
	at            Instant
}

// Begin counts a session that begins.
func (s *Sessions) Begin(now Instant) {
	s.Fade(now)
	s.Began++
}

// Fail counts a session that fails.
func (s *Sessions) Fail(now Instant) {
	s.Fade(now)
	s.Failed++
}

// Fade makes the sessions count less, for the time that has passed.
func (s *Sessions) Fade(now Instant) {
	if passed := time.Duration(now - s.at); passed > 0 {
		rest := math.Exp2(-float64(passed) / float64(outlierHalfLife))
		s.Began, s.Failed = s.Began*rest, s.Failed*rest
	}
	s.at = now
}

// failedShare returns the share of sessions that failed. Less than one session, which is what is left of those of long ago, is none.
func failedShare(s Sessions) float64 { return s.Failed / max(s.Began, s.Failed, 1) }

// Peers is how the other servers of a service do.
type Peers struct {
	Serving  int      // how many get sessions
	Ejected  int      // how many are ejected as outliers
	Sessions Sessions // of those that get sessions
}

// outlier decides whether a server is ejected: left without new sessions for a while, because far more fail on it than on its peers.
type outlier struct {
	random  random
	ejected bool
	until   Instant // when it comes back at the latest, if it is ejected; otherwise when it came back
	times   int     // how often it was ejected lately
	share   float64 // of its sessions that had failed when it was ejected
}

// compare decides anew. At least the given number of sessions must have failed, of enough clients. It returns why, when the server is ejected now.
func (o *outlier) compare(own *Sessions, peers func() Peers, least int, enough bool, now Instant) (why string) {
	own.Fade(now)
	if !o.ejected && (!enough || own.Failed < float64(least)-0.5) { // as nearly always: there is nothing to compare
		return ""
	}
	others := peers()
	if !o.ejected {
		o.share = failedShare(*own)
	}
	worse := o.share >= outlierShare && o.share > outlierFactor*failedShare(others.Sessions)
	switch {
	case o.ejected && now >= o.until:
		o.ejected, own.Began, own.Failed = false, 0, 0 // a new chance
	case o.ejected && (!worse || others.Serving == 0):
		o.ejected, o.until = false, now
	case !o.ejected && worse && others.Serving > others.Ejected:
		if time.Duration(now-o.until) > outlierForget {
			o.times = 0
		}
		o.times++
		pause := min(time.Duration(o.times)*outlierPause, outlierMaxPause)
		o.ejected, o.until = true, now+Instant(o.random.jittered(pause))
		return fmt.Sprintf("%.0f of its last %.0f sessions failed, and %.0f of %.0f on the others",
			own.Failed, max(own.Began, own.Failed), others.Sessions.Failed, others.Sessions.Began)
	}
	return ""
}
