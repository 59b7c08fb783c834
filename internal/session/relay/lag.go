package relay

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// BackendName is what statistics call a backend.
type BackendName struct{ Service, Backend string }

// Lag is what a backend owes its sessions, at one instant.
type Lag struct {
	// Longest and Median are of its sessions' lags, and Owed is the longest time for which it surely owes one a result: see [Timing].
	Longest, Median, Owed time.Duration
	// Late is how late results come, of the sessions of which that is known: those of services with a limit.
	Late backend.LagReading
	// Answered counts the sessions that have had their first reply. FirstReplyOwed is for how long the median first reply has been owed; 0 if it has
	// come. One that is owed counts as soon as it takes longer than those that have come.
	Answered       int
	FirstReplyOwed time.Duration
	// Patience is how long a session may wait until it is overdue: several times what is usual for the backend, or for its peers where it has no
	// history.
	Patience time.Duration
	// Overdue counts the sessions that are surely owed a result for longer than Patience, and Unreplied those that have never had a reply for longer
	// than that, though their clients send, and of whose audio nothing is known. OverdueFor is the longest time of either.
	Overdue, Unreplied int
	OverdueFor         time.Duration
	// Heard counts the sessions to which it has sent something within Patience.
	Heard int
}

const (
	// leastPatience is how long every session may wait: some recognisers say nothing before the end of a sentence.
	leastPatience = 8 * time.Second
	// patienceFactor is how many times longer than nearly all first replies a session may wait.
	patienceFactor = 4
	nearlyAll      = 0.99
	lateShare      = 0.95
	// mostLate is how many of the sessions whose results come latest are named.
	mostLate = 64
	// enoughHistory is how many first replies tell what is usual.
	enoughHistory = 20
)

// waiting is what Lags knows of one session.
type waiting struct {
	Timing
	firstReply time.Duration // 0 if it has not come
	told       bool          // Owed is known: by a watch, or by the profile's sign
	service    *route.Service
	backend    *backend.Backend
	meter      *meter.Backend // of the backend
	client     backend.Client // if it is Timed
}

// backendLag is what Lags has learned of a backend.
type backendLag struct {
	sessions []*waiting
	replies  meter.Distribution // first replies since the start
}

// Lags returns the lag of each backend that has sessions. Like [Sessions.Describe], it must not be called on a loop, and holds none for long. It may
// take as long as over to ask many sessions, and 0 is for an answer without pauses.
func (s *Sessions) Lags(over time.Duration) map[BackendName]Lag {
	sessions, _ := s.registry.all()
	found := make([]waiting, 0, len(sessions))
	s.eachOver(over, sessions, func(session *Session) {
		if session.leg.conn != nil {
			found = append(found, session.waiting()) // what takes longer is done when the loops have gone back to their sockets
		}
	}, func() {})
	all := make(map[BackendName]*backendLag)
	for i := range found {
		w := &found[i]
		name := BackendName{w.service.Name, w.backend.Name()}
		b := all[name]
		if b == nil {
			b = &backendLag{replies: w.meter.FirstReply.Read()}
			all[name] = b
		}
		b.sessions = append(b.sessions, w)
	}
	services := make(map[string]*meter.Distribution)
	for name, b := range all {
		if services[name.Service] == nil {
			services[name.Service] = new(meter.Distribution)
		}
		services[name.Service].Add(&b.replies)
	}
	lags := make(map[BackendName]Lag, len(all))
	for name, b := range all {
		lags[name] = lagOf(b.sessions, patience(&b.replies, services[name.Service]))
	}
	return lags
}

// waiting is called on the session's loop.
func (s *Session) waiting() waiting {
	told := s.failover != nil && s.failover.watch != nil || s.life.state == completing || surely(s.leg.conn.Profile().Failover().Stall)
	w := waiting{s.timing(s.client.Loop().Now()), s.record.FirstReply, told, s.record.Service, s.record.Backend, s.meter, backend.Client{}}
	if w.Timed {
		w.client = s.voter()
	}
	return w
}

// surely reports whether a server that sends nothing while its client sends owes something, whatever the client sends.
func surely(sign profile.StallSign) bool {
	return sign == profile.StallReplies || sign == profile.StallCadence
}

// patience returns how long a session of a backend may wait, by its own first replies, or by those of all backends of its service.
func patience(own, all *meter.Distribution) time.Duration {
	history := own
	if own.Count() < enoughHistory {
		history = all
	}
	if history.Count() < enoughHistory {
		return leastPatience
	}
	return max(leastPatience, patienceFactor*history.Quantile(nearlyAll))
}

// lagOf returns the lag of a backend that has these sessions.
func lagOf(sessions []*waiting, patience time.Duration) Lag {
	lag := Lag{Patience: patience}
	var came, missing []time.Duration
	var late []backend.SessionLag
	lags := make([]time.Duration, len(sessions))
	for i, s := range sessions {
		lags[i], lag.Owed = s.Lag, max(lag.Owed, s.Owed)
		if s.Timed {
			late = append(late, backend.SessionLag{Lag: s.Late, Client: s.client})
		}
		switch {
		case s.firstReply > 0:
			came = append(came, s.firstReply)
		case s.Unreplied > 0:
			missing = append(missing, s.Unreplied)
		}
		switch {
		case s.Owed > patience:
			lag.Overdue++
			lag.OverdueFor = max(lag.OverdueFor, s.Owed)
		case !s.told && s.Sending && s.Unreplied > patience:
			lag.Unreplied++
			lag.OverdueFor = max(lag.OverdueFor, s.Unreplied)
		case s.firstReply > 0 && s.ServerSilent <= patience:
			lag.Heard++
		}
	}
	if len(lags) > 0 {
		lag.Median = median(lags)
		lag.Longest = lags[len(lags)-1] // they are sorted now
	}
	if len(late) > 0 {
		slices.SortFunc(late, func(a, b backend.SessionLag) int { return cmp.Compare(b.Lag, a.Lag) })
		lag.Late.Lag = late[len(late)-int(math.Ceil(lateShare*float64(len(late))))].Lag
		lag.Late.Worst = slices.Clip(late[:min(len(late), mostLate)])
	}
	lag.Answered, lag.FirstReplyOwed = len(came), firstReplyOwed(came, missing)
	return lag
}

// firstReplyOwed returns the median of the first replies that came, and of those that are missing for longer than most took; 0 if it has come.
func firstReplyOwed(came, missing []time.Duration) time.Duration {
	usual := time.Duration(0)
	if len(came) > 0 {
		usual = median(came)
	}
	missing = slices.DeleteFunc(missing, func(d time.Duration) bool { return d <= usual })
	if len(missing) <= len(came) {
		return 0
	}
	slices.Sort(missing)
	return missing[(len(missing)-len(came)-1)/2] // those that came are before all of these
}

// median returns the middle of durations, of which there is at least one; of two, the shorter one. It sorts them.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
