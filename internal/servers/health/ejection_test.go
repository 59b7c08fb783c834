package health

import (
	"testing"
	"time"
)

// crowd is the servers of one service, compared at times that the test sets.
type crowd struct {
	t    *testing.T
	now  Instant
	all  []*member
	down map[int]bool // they get no sessions for another reason
}

type member struct {
	tracker  *Tracker
	sessions Sessions
	ejected  bool
	gone     bool
}

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{t: t, now: 1, down: make(map[int]bool)}
	for range n {
		c.all = append(c.all, &member{tracker: New(Limits{Parallel: 1, Failures: 5})})
	}
	return c
}

// sessions begins a number of sessions on a server, some of which fail.
func (c *crowd) sessions(i, began, failed int) {
	for range began {
		c.all[i].sessions.Begin(c.now)
	}
	for range failed {
		c.all[i].sessions.Fail(c.now)
	}
}

// peers adds up the servers beside one.
func (c *crowd) peers(i int) (sum Peers) {
	for j, m := range c.all {
		switch {
		case j == i || m.gone:
		case m.ejected:
			sum.Ejected++
		case !c.down[j]:
			m.sessions.Fade(c.now)
			sum.Serving++
			sum.Sessions.Began += m.sessions.Began
			sum.Sessions.Failed += m.sessions.Failed
		}
	}
	return sum
}

func (c *crowd) expect(i int, out bool) {
	c.t.Helper()
	m := c.all[i]
	m.ejected = m.tracker.ComparePeers(&m.sessions, func() Peers { return c.peers(i) }, c.now)
	if m.ejected != out || m.tracker.Usable() == out {
		c.t.Errorf("server %d is ejected: %v, %+v; want %v", i, m.ejected, m.tracker.Changes(), out)
	}
}

func (c *crowd) pass(d time.Duration) { c.now += Instant(d) }

// A server on which most sessions fail is ejected, unless they fail on its peers too.
func TestOutliers(t *testing.T) {
	for name, test := range map[string]struct {
		backends int
		play     func(*crowd)
		out      bool
	}{
		"all fail":                        {2, func(c *crowd) { c.sessions(0, 20, 20) }, true},
		"half fail":                       {2, func(c *crowd) { c.sessions(0, 20, 10); c.sessions(1, 20, 1) }, true},
		"few fail":                        {2, func(c *crowd) { c.sessions(0, 20, 8); c.sessions(1, 20, 0) }, false},
		"too few to tell":                 {2, func(c *crowd) { c.sessions(0, 4, 4) }, false},
		"they fail everywhere":            {3, func(c *crowd) { c.sessions(0, 20, 20); c.sessions(1, 20, 10); c.sessions(2, 20, 12) }, false},
		"it is the only one":              {1, func(c *crowd) { c.sessions(0, 20, 20) }, false},
		"the other gets none":             {2, func(c *crowd) { c.sessions(0, 20, 20); c.down[1] = true }, false},
		"long ago":                        {2, func(c *crowd) { c.sessions(0, 20, 20); c.pass(time.Minute) }, false},
		"one of three is ejected already": {3, func(c *crowd) { c.sessions(1, 9, 9); c.expect(1, true); c.sessions(0, 9, 9) }, false},
		"one of four is ejected already":  {4, func(c *crowd) { c.sessions(1, 9, 9); c.expect(1, true); c.sessions(0, 9, 9) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, test.backends)
			test.play(c)
			c.expect(0, test.out)
		})
	}
}

// It comes back after a while that is longer each time, with a new chance.
func TestOutlierComesBack(t *testing.T) {
	c := newCrowd(t, 2)
	for n := range 20 {
		c.sessions(0, 5, 5)
		c.expect(0, true)
		pause := min(time.Duration(n+1)*outlierPause, outlierMaxPause)
		c.pass(pause * 7 / 10)
		c.expect(0, true)
		c.pass(pause * 3 / 10)
		c.expect(0, false)
		c.sessions(0, 4, 4)
		c.expect(0, false)
		c.pass(time.Minute)
	}
	c.pass(outlierForget)
	c.sessions(0, 5, 5)
	c.expect(0, true)
	c.pass(outlierPause)
	c.expect(0, false)
}

// When the clients whose sessions failed fail on the peers as well, it was not the server: it is back at once. It is too when
// its peers are gone.
func TestOutlierIsPardoned(t *testing.T) {
	c := newCrowd(t, 2)
	c.sessions(0, 10, 10)
	c.sessions(1, 10, 0)
	c.expect(0, true)
	c.sessions(1, 10, 10) // the bad client has moved on
	c.expect(0, false)
	c.expect(1, false)
	c.pass(time.Hour)
	c.sessions(0, 10, 10)
	c.expect(0, true)
	c.down[1] = true
	c.expect(0, false)
}
