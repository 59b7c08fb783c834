package health

import (
	"net/netip"
	"testing"
	"time"
)

// Failures count towards the circuit unless they may be one client's doing.
func TestFailuresThatCount(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	const second = Instant(time.Second)
	now := 100 * second
	quick := func(client netip.Addr) SessionEnd {
		return SessionEnd{Client: client, Began: now - second/2, Fault: "x"}
	}
	slow := func(client netip.Addr) SessionEnd {
		return SessionEnd{Client: client, Began: now - 9*second, Fault: "x"}
	}
	private := quick(a)
	private.Private = true
	for name, test := range map[string]struct {
		others int // sessions that go on for long
		known  []netip.Addr
		ends   []SessionEnd
		counts int
	}{
		"nobody is served well":                   {0, nil, []SessionEnd{quick(a), quick(a), quick(a)}, 3},
		"one client fails at once, others do not": {3, nil, []SessionEnd{quick(a), quick(a), quick(a)}, 1},
		"several clients fail":                    {3, nil, []SessionEnd{quick(a), quick(b), quick(a)}, 3},
		"with keys of their own":                  {0, nil, []SessionEnd{private, private}, 0},
		"later, all behind one address":           {3, nil, []SessionEnd{slow(a), slow(a)}, 2},
		"later, one of several clients":           {3, []netip.Addr{b}, []SessionEnd{slow(a), slow(a)}, 1},
		"later, and nobody else is served":        {0, []netip.Addr{b}, []SessionEnd{slow(a), slow(a)}, 2},
		"before they began":                       {0, nil, []SessionEnd{{Client: a, Fault: "x"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log sessionLog
			for range test.others {
				log.begin(now - 60*second)
			}
			for _, client := range test.known {
				log.end(&SessionEnd{Client: client})
			}
			counts := 0
			for _, e := range test.ends {
				if e.Began != 0 {
					log.begin(e.Began)
				}
				log.end(&e)
				if log.counts(&e, now) {
					counts++
				}
			}
			if counts != test.counts {
				t.Errorf("%d failures count; want %d", counts, test.counts)
			}
			if n := log.lasting(now); n != test.others || log.open != test.others {
				t.Errorf("%d sessions last, %d go on; want %d", n, log.open, test.others)
			}
		})
	}
}
