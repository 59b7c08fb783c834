package backend

import (
	"net/netip"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// crowd is backends of one service, compared at times that the test sets.
type crowd struct {
	t     *testing.T
	now   pool.Instant
	peers Peers
	all   []*conduct
	down  map[int]bool // they get no sessions for another reason
}

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{t: t, now: 1, down: make(map[int]bool)}
	for i := range n {
		c.all = append(c.all, c.peers.join(func() bool { return !c.down[i] }))
	}
	return c
}

// sessions begins so many on a backend, of which so many fail.
func (c *crowd) sessions(i, began, failed int) {
	for range began {
		c.all[i].sessionBegan(c.now)
	}
	for range failed {
		c.all[i].sessionFailed(c.now)
	}
}

func (c *crowd) expect(i int, out bool) {
	c.t.Helper()
	if got, why := c.all[i].look(c.now, 5); got != out {
		c.t.Errorf("backend %d is left out: %v, %s; want %v", i, got, why, out)
	}
}

func (c *crowd) pass(d time.Duration) { c.now += pool.Instant(d) }

// A backend on which most sessions fail is left out, unless they fail on its peers too.
func TestOutliers(t *testing.T) {
	for name, test := range map[string]struct {
		backends int
		play     func(*crowd)
		out      bool
	}{
		"all fail":                         {2, func(c *crowd) { c.sessions(0, 20, 20) }, true},
		"half fail":                        {2, func(c *crowd) { c.sessions(0, 20, 10); c.sessions(1, 20, 1) }, true},
		"few fail":                         {2, func(c *crowd) { c.sessions(0, 20, 8); c.sessions(1, 20, 0) }, false},
		"too few to tell":                  {2, func(c *crowd) { c.sessions(0, 4, 4) }, false},
		"they fail everywhere":             {3, func(c *crowd) { c.sessions(0, 20, 20); c.sessions(1, 20, 10); c.sessions(2, 20, 12) }, false},
		"it is the only one":               {1, func(c *crowd) { c.sessions(0, 20, 20) }, false},
		"the other gets none":              {2, func(c *crowd) { c.sessions(0, 20, 20); c.down[1] = true }, false},
		"long ago":                         {2, func(c *crowd) { c.sessions(0, 20, 20); c.pass(time.Minute) }, false},
		"one of three is left out already": {3, func(c *crowd) { c.sessions(1, 9, 9); c.expect(1, true); c.sessions(0, 9, 9) }, false},
		"one of four is left out already":  {4, func(c *crowd) { c.sessions(1, 9, 9); c.expect(1, true); c.sessions(0, 9, 9) }, true},
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
		rest := min(time.Duration(n+1)*outlierRest, outlierMostRest)
		c.pass(rest * 7 / 10)
		c.expect(0, true)
		c.pass(rest * 3 / 10)
		c.expect(0, false)
		c.sessions(0, 4, 4)
		c.expect(0, false)
		c.pass(time.Minute)
	}
	c.pass(outlierForget)
	c.sessions(0, 5, 5)
	c.expect(0, true)
	c.pass(outlierRest)
	c.expect(0, false)
}

// When the clients whose sessions failed fail on the peers as well, it was not the backend: it is back at once. It is too when
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

// A backend that is gone is compared with nobody.
func TestOutlierLeaves(t *testing.T) {
	c := newCrowd(t, 2)
	c.all[1].leave()
	c.all[1].leave()
	c.sessions(0, 10, 10)
	c.expect(0, false)
	if n := len(c.peers.list); n != 1 {
		t.Errorf("%d backends are left", n)
	}
}

// Failures count towards the circuit unless they may be one client's doing.
func TestFailuresThatCount(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	const second = pool.Instant(time.Second)
	now := 100 * second
	quick := func(client netip.Addr) sessionEnd {
		return sessionEnd{client: client, began: now - second/2, broken: "x"}
	}
	slow := func(client netip.Addr) sessionEnd {
		return sessionEnd{client: client, began: now - 9*second, broken: "x"}
	}
	private := quick(a)
	private.private = true
	for name, test := range map[string]struct {
		others int // sessions that go on for long
		known  []netip.Addr
		ends   []sessionEnd
		counts int
	}{
		"nobody is served well":                   {0, nil, []sessionEnd{quick(a), quick(a), quick(a)}, 3},
		"one client fails at once, others do not": {3, nil, []sessionEnd{quick(a), quick(a), quick(a)}, 1},
		"several clients fail":                    {3, nil, []sessionEnd{quick(a), quick(b), quick(a)}, 3},
		"with keys of their own":                  {0, nil, []sessionEnd{private, private}, 0},
		"later, all behind one address":           {3, nil, []sessionEnd{slow(a), slow(a)}, 2},
		"later, one of several clients":           {3, []netip.Addr{b}, []sessionEnd{slow(a), slow(a)}, 1},
		"later, and nobody else is served":        {0, []netip.Addr{b}, []sessionEnd{slow(a), slow(a)}, 2},
		"before they began":                       {0, nil, []sessionEnd{{client: a, broken: "x"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var book sessionBook
			for range test.others {
				book.begin(now - 60*second)
			}
			for _, client := range test.known {
				book.end(&sessionEnd{client: client})
			}
			counts := 0
			for _, e := range test.ends {
				if e.began != 0 {
					book.begin(e.began)
				}
				book.end(&e)
				if book.counts(&e, now) {
					counts++
				}
			}
			if counts != test.counts {
				t.Errorf("%d failures count; want %d", counts, test.counts)
			}
			if n := book.settled(now); n != test.others || book.going != test.others {
				t.Errorf("%d sessions are settled, %d go on; want %d", n, book.going, test.others)
			}
		})
	}
}
