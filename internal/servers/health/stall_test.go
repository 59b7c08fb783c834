package health

import (
	"net/netip"
	"testing"
	"time"
)

var (
	alice = Client{Address: netip.MustParseAddr("192.0.2.1")}
	bob   = Client{Address: netip.MustParseAddr("198.51.100.2")}
)

// stalling is a server's health with a number of sessions of several clients, at noon.
func stalling(sessions int, check StallCheck) *Tracker {
	h := New(Limits{Parallel: 4, Failures: 5, SlowStart: 10 * time.Second, StallTimeout: 5 * time.Second, StallCheck: check})
	h.stall.random = func(time.Duration) time.Duration { return 0 }
	h.SessionBegan(Client{}, noon-60e9)
	h.SessionEnded(SessionEnd{Client: alice, Began: noon - 60e9}, noon-60e9)
	h.SessionBegan(Client{}, noon-60e9)
	h.SessionEnded(SessionEnd{Client: bob, Began: noon - 60e9}, noon-60e9)
	for range sessions {
		h.SessionBegan(Client{}, noon-60e9)
	}
	return h
}

// neighbour is in alice's network.
var neighbour = Client{Address: netip.MustParseAddr("192.0.2.200")}

// strangers are clients of different networks.
func strangers(n int) (all []Client) {
	for i := range n {
		all = append(all, Client{Address: netip.AddrFrom4([4]byte{10, 0, byte(i), 1})})
	}
	return all
}

// heard is a stall of each client while other sessions get results.
func heard(clients ...Client) (all []Stall) {
	for _, client := range clients {
		e := from(client)
		e.OthersHeard = true
		all = append(all, e)
	}
	return all
}

func from(client Client) Stall {
	return Stall{Client: client, Began: noon - 60e9, How: "no result for 5s"}
}

// expectStall compares what the health says after a review.
func expectStall(t *testing.T, h *Tracker, now Instant, usable bool, trial int) {
	t.Helper()
	h.Review(now, Connections{Cap: 8})
	if h.Usable() != usable || h.Trial() != trial {
		t.Errorf("%v after noon: usable %v, trial %d; want %v, %d", time.Duration(now-noon), h.Usable(), h.Trial(), usable, trial)
	}
}

func at(after time.Duration) Instant { return noon + Instant(after) }

func TestWhoseStallsCount(t *testing.T) {
	for name, c := range map[string]struct {
		sessions int
		stalls   []Stall
		every    time.Duration
		out      bool
	}{
		"the only session":                          {1, []Stall{from(alice)}, 0, true},
		"the only session, which stalls anywhere":   {1, []Stall{{Client: alice, Again: true}}, 0, false},
		"one of two":                                {2, []Stall{from(alice)}, 0, false},
		"two clients":                               {30, []Stall{from(alice), from(bob)}, time.Second, true},
		"one client twice":                          {30, []Stall{from(alice), from(alice)}, time.Second, false},
		"two clients, one of which stalls anywhere": {30, []Stall{from(alice), {Client: bob, Again: true}}, time.Second, true},
		"two addresses of one network":              {30, []Stall{from(alice), {Client: neighbour}}, time.Second, false},
		"two, while others have results":            {30, heard(alice, bob), time.Second, false},
		"eight, while others have results":          {30, heard(strangers(8)...), time.Second, true},
		"two clients, far apart":                    {30, []Stall{from(alice), from(bob)}, 2 * time.Minute, false},
	} {
		h := stalling(c.sessions, NoCheck)
		now := noon
		for _, e := range c.stalls {
			h.SessionStalled(e, now)
			now += Instant(c.every)
		}
		if h.Usable() == c.out || h.Stalled() != c.out {
			t.Errorf("%s: usable %v, stalled %v", name, h.Usable(), h.Stalled())
		}
	}
	// Where all clients have one address, as behind a proxy, that address counts twice.
	h := New(Limits{Parallel: 4, Failures: 5, StallTimeout: 5 * time.Second})
	for range 3 {
		h.SessionBegan(Client{}, noon-60e9)
	}
	h.SessionEnded(SessionEnd{Client: alice, Began: noon - 60e9}, noon)
	h.SessionStalled(from(alice), noon)
	if h.SessionStalled(from(alice), noon); h.Usable() {
		t.Error("two stalls count as one because all clients have one address")
	}
}

// A server comes back by one session after the other, and is left alone twice as long each time that one stalls.
func TestTrialsAfterStall(t *testing.T) {
	h := stalling(1, NoCheck)
	h.SessionStalled(from(alice), noon)
	h.SessionEnded(SessionEnd{Client: alice, Began: noon - 60e9, Fault: "stalled"}, noon)
	expectStall(t, h, noon, false, 0)
	expectStall(t, h, at(FirstStallBackoff-1), false, 0)
	expectStall(t, h, at(FirstStallBackoff), true, 1)
	expectStall(t, h, at(FirstStallBackoff+trialEvery-1), true, 1)
	expectStall(t, h, at(FirstStallBackoff+trialEvery), true, 2) // the first has nothing to say
	now := at(time.Minute)
	if h.SessionAnswered(noon-60e9, now) {
		t.Error("a session that began before the stall is no trial")
	}
	h.SessionBegan(bob, now)
	h.SessionStalled(Stall{Client: bob, Began: now}, now)
	expectStall(t, h, now, false, 0)
	expectStall(t, h, now+Instant(2*FirstStallBackoff)-1, false, 0)
	now += Instant(2 * FirstStallBackoff)
	expectStall(t, h, now, true, 1)
	if share := h.Share(); share > 0.2 {
		t.Errorf("a trial has a share of %v", share)
	}
	h.SessionBegan(bob, now)
	if !h.SessionAnswered(now, now) {
		t.Error("the trial's result changes nothing")
	}
	expectStall(t, h, now+1, true, 0)
	if h.Stalled() || h.Share() > 0.2 {
		t.Errorf("stalled %v, share %v; it is to start slowly", h.Stalled(), h.Share())
	}
	var told []Change
	for _, c := range h.Changes() {
		if s, ok := c.(StallChange); ok {
			told = append(told, s)
		}
	}
	if len(told) != 2 || told[0] != (StallChange{true, "no result for 5s"}) || told[1] != (StallChange{}) {
		t.Errorf("told %+v", told)
	}
}

// One client whose sessions are the trials does not make the server wait for longer each time.
func TestOneClientsTrials(t *testing.T) {
	h := stalling(1, NoCheck)
	h.SessionStalled(from(alice), noon)
	now := noon
	for range 5 {
		expectStall(t, h, now+Instant(FirstStallBackoff)-1, false, 0)
		now += Instant(FirstStallBackoff)
		expectStall(t, h, now, true, 1)
		h.SessionStalled(Stall{Client: neighbour, Began: now}, now)
	}
}

func TestChecksAfterStall(t *testing.T) {
	h := stalling(1, CanaryCheck)
	h.SessionStalled(from(alice), noon)
	expectStall(t, h, at(FirstStallBackoff), false, 0)
	h.ProbeAnswered(at(FirstStallBackoff))
	expectStall(t, h, at(time.Minute), false, 0)
	h.CanaryAnswered(at(time.Minute))
	expectStall(t, h, at(time.Minute), true, 0)

	h = stalling(1, CanaryCheck) // which cannot be played
	h.SessionStalled(from(alice), noon)
	expectStall(t, h, at(checkPatience-1), false, 0)
	expectStall(t, h, at(checkPatience), true, 1)

	h = stalling(1, ProbeCheck)
	h.SessionStalled(from(alice), noon)
	h.ProbeAnswered(at(time.Second)) // it answered then, too, while it was stalled
	expectStall(t, h, at(time.Minute), false, 0)
	h.ProbeAnswered(at(time.Minute))
	expectStall(t, h, at(time.Minute), true, 1) // that it can be reached is not enough
}

// What makes it void that sessions have stalled takes the server back into service, and nothing else does.
func TestStallIsVoid(t *testing.T) {
	limits := func(timeout time.Duration, parallel int) Limits {
		return Limits{Parallel: parallel, Failures: 5, StallTimeout: timeout}
	}
	for name, c := range map[string]struct {
		happens func(*Tracker)
		void    bool
	}{
		"sessions are no longer watched": {func(h *Tracker) { h.Configure(limits(0, 4), at(time.Second)) }, true},
		"they may wait for longer":       {func(h *Tracker) { h.Configure(limits(6*time.Second, 4), at(time.Second)) }, true},
		"they may wait for less":         {func(h *Tracker) { h.Configure(limits(4*time.Second, 4), at(time.Second)) }, false},
		"something else is changed":      {func(h *Tracker) { h.Configure(limits(5*time.Second, 8), at(time.Second)) }, false},
		"the server is dialed anew":      {func(h *Tracker) { h.Renew() }, true},
		"an operator says so":            {func(h *Tracker) { h.ForgetStall(at(time.Second)) }, true},
	} {
		for _, trial := range []bool{false, true} {
			h := stalling(1, NoCheck)
			h.SessionStalled(from(alice), noon)
			now := at(time.Second)
			if trial {
				now = at(FirstStallBackoff)
			}
			h.Review(now, Connections{Cap: 8})
			c.happens(h)
			h.Review(now, Connections{Cap: 8})
			if h.Stalled() == c.void || c.void && (!h.Usable() || h.Trial() != 0) {
				t.Errorf("%s, trial %v: stalled %v, usable %v, trial %d", name, trial, h.Stalled(), h.Usable(), h.Trial())
			}
		}
	}
}

// A session that began while sessions were watched takes no server out of service that none could bring back.
func TestStallOfUnwatchedServer(t *testing.T) {
	h := stalling(1, NoCheck)
	h.Configure(Limits{Parallel: 4, Failures: 5}, noon)
	h.SessionStalled(from(alice), noon)
	expectStall(t, h, noon, true, 0)
}
