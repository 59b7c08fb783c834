package app

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ending is how far the end of the process has come. It is immutable. It has no clock.
type ending struct {
	began  time.Time // when it was asked for
	closed time.Time // when the proxy stopped accepting clients; zero until then
	// changed is when its times were last changed after that; zero if they were not. A shorter time never ends all sessions at once.
	changed time.Time
	// handedOver: a successor has taken over, and clients notice nothing, so sessions get the time of upgrade-drain-timeout.
	handedOver bool
}

// timeout returns how long sessions may take to finish.
func (e *ending) timeout(s *settings.Settings) time.Duration {
	if e.handedOver {
		return s.UpgradeDrainTimeout
	}
	return s.DrainTimeout
}

// timetable is when the stages of an ending begin. Without a limit, spread and over are zero.
type timetable struct {
	closes time.Time // no clients are accepted from then on
	spread time.Time // the sessions that are left then are ended one after the other
	over   time.Time // all sessions are ended
}

// The sessions that are left are ended over the last part of the timeout, so that their clients do not all connect elsewhere at once.
const (
	spreadShare   = 3 // the part is a third
	longestSpread = 10 * time.Minute
)

// timetable returns the timetable by the settings that are in force now. They may change as long as the ending lasts.
func (e *ending) timetable(s *settings.Settings) (t timetable) {
	t.closes = e.closed
	if e.closed.IsZero() {
		t.closes = e.began.Add(s.ShutdownDelay)
	}
	if timeout := e.timeout(s); timeout != settings.NoLimit {
		last := min(timeout/spreadShare, longestSpread)
		t.over = t.closes.Add(timeout)
		if least := e.changed.Add(last); !e.changed.IsZero() && t.over.Before(least) {
			t.over = least
		}
		t.spread = t.over.Add(-last)
	}
	return t
}

// shown returns what operators see of the ending.
func (e *ending) shown(s *settings.Settings, stopped int64) *api.Drain {
	t := e.timetable(s)
	return &api.Drain{Since: e.began, Accepting: e.closed.IsZero(), Closes: t.closes, Spread: t.spread, Deadline: t.over, Told: stopped}
}

// reportAfter returns how long to wait before the log says again how many sessions are left, after it has waited for them for so long:
// often at first, and not often in a long time.
func reportAfter(waited time.Duration) time.Duration {
	return min(max(waited/4, time.Minute), time.Hour).Truncate(time.Second)
}
