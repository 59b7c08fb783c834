package app

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
)

// TestTimetable has the stages of an end by the settings, and by settings that change meanwhile.
func TestTimetable(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time {
		if seconds < 0 {
			return time.Time{}
		}
		return began.Add(time.Duration(seconds) * time.Second)
	}
	const none = int(settings.NoLimit / time.Second)
	for name, c := range map[string]struct {
		delay, timeout           int // in seconds
		closed, changed          int // in seconds after the beginning; -1 for not yet
		closes, spreadFrom, over int // the same
	}{
		"before it closes":              {5, 30, -1, -1, 5, 25, 35},
		"closed":                        {5, 30, 6, -1, 6, 26, 36},
		"a delay that changed too late": {60, 30, 6, -1, 6, 26, 36},
		"no delay":                      {0, 30, 0, -1, 0, 20, 30},
		"a long timeout":                {0, 9000, 0, -1, 0, 8400, 9000},
		"at once":                       {0, 0, 0, -1, 0, 0, 0},
		"no limit":                      {5, none, 5, -1, 5, -1, -1},
		"no limit, before it closes":    {5, none, -1, -1, 5, -1, -1},
		"a limit is set, and has passed: the spread begins":    {0, 30, 0, 7200, 0, 7200, 7210},
		"a limit is set, and has passed: at once is asked for": {0, 0, 0, 7200, 0, 7200, 7200},
		"a limit is set, of which little is left":              {0, 7205, 0, 7200, 0, 7200, 7800},
		"a longer limit is set":                                {0, 9000, 0, 7200, 0, 8400, 9000},
	} {
		s := settings.Settings{ShutdownDelay: time.Duration(c.delay) * time.Second, DrainTimeout: settings.NoLimit}
		if c.timeout != none {
			s.DrainTimeout = time.Duration(c.timeout) * time.Second
		}
		e := ending{began: began, closed: at(c.closed), changed: at(c.changed)}
		want := timetable{at(c.closes), at(c.spreadFrom), at(c.over)}
		if got := e.timetable(&s); got != want {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
		if d := e.shown(&s, 3); d.Accepting != (c.closed < 0) || d.Told != 3 || d.Deadline != want.over {
			t.Errorf("%s: shown as %+v", name, d)
		}
	}
}

// A reader of the log sees that a drain continues, and not much more of it.
func TestReportAfter(t *testing.T) {
	t.Parallel()
	lines, waited := 0, time.Duration(0)
	for ; waited < 30*24*time.Hour; lines++ {
		pause := reportAfter(waited)
		if pause < time.Minute || pause > time.Hour {
			t.Fatalf("%v after %v", pause, waited)
		}
		waited += pause
	}
	if first := reportAfter(0); first != time.Minute || lines > 800 {
		t.Errorf("the first line after %v, and %d in a month", first, lines)
	}
}
