package health

import (
	"net/netip"
	"testing"
	"time"
)

// A server that has sessions which last has a number of them fail, and its circuit opens if that is its doing.
func TestFailuresThatCount(t *testing.T) {
	const after, second = 3, Instant(time.Second)
	now := 100 * second
	quick := func(clients ...Client) (ends []SessionEnd) {
		for _, client := range clients {
			ends = append(ends, SessionEnd{Client: client, Began: now - second/2, Fault: "x"})
		}
		return ends
	}
	slow := func(clients ...Client) (ends []SessionEnd) {
		for _, client := range clients {
			ends = append(ends, SessionEnd{Client: client, Began: now - 9*second, Fault: "x"})
		}
		return ends
	}
	private := quick(alice, bob, alice)
	for i := range private {
		private[i].Private = true
	}
	alike := func(clients ...Client) []SessionEnd {
		ends := quick(clients...)
		for i := range ends {
			ends[i].Alike = true
		}
		return ends
	}
	key := func(c Client, credential uint64) Client { c.Credential = credential; return c }
	at := func(address string) Client { return Client{Address: netip.MustParseAddr(address)} }
	for name, test := range map[string]struct {
		others  int  // sessions that last for long
		results bool // which they get
		known   []Client
		ends    []SessionEnd
		opens   bool
	}{
		"no client is served well":                    {0, false, nil, quick(alice, alice, alice), true},
		"one client fails at once, others last":       {3, false, nil, quick(alice, alice, alice), false},
		"one network fails at once":                   {3, false, []Client{bob}, quick(alice, neighbour, alice), false},
		"several clients fail, others get no results": {3, false, nil, quick(alice, bob, alice), true},
		"several clients fail, others get results":    {3, true, nil, quick(alice, bob, alice), false},
		"several clients fail later, the same":        {3, true, nil, slow(alice, bob, alice), false},
		"many clients fail, others get results":       {3, true, nil, quick(strangers(after * wellWeight)...), true},
		"not as many":                                 {3, true, nil, quick(strangers(after*wellWeight - 1)...), false},
		"an IPv6 customer": {3, true, []Client{bob}, quick(
			at("2001:db8:1::1"), at("2001:db8:1:1::1"), at("2001:db8:1:2::1"), at("2001:db8:1:3::1"), at("2001:db8:1:4::1"), at("2001:db8:1:5::1"),
			at("2001:db8:1:6::1"), at("2001:db8:1:7::1"), at("2001:db8:1:8::1"), at("2001:db8:1:9::1"), at("2001:db8:1:a::1"), at("2001:db8:1:b::1")), false},
		"one credential from everywhere":     {3, false, []Client{key(alice, 7)}, quick(key(strangers(1)[0], 1), key(bob, 1), key(alice, 1)), false},
		"many credentials of one network":    {3, false, []Client{bob}, quick(key(alice, 1), key(alice, 2), key(neighbour, 3)), false},
		"credentials behind a balancer":      {3, false, nil, quick(key(alice, 1), key(alice, 2), key(alice, 3)), true},
		"one credential that all have":       {3, false, nil, quick(key(strangers(1)[0], 1), key(bob, 1), key(alice, 1)), true},
		"as on another server, two clients":  {0, false, nil, alike(alice, bob, alice, bob, alice, bob), false},
		"as on another server, the only one": {0, false, nil, alike(alice, alice, alice), true},
		"as on another server, three":        {0, false, nil, alike(strangers(after)...), true},
		"with keys of their own":             {0, false, nil, private, false},
		"later, all behind one address":      {3, false, nil, slow(alice, alice, alice), true},
		"later, and others get results":      {3, true, nil, slow(alice, alice, alice), false},
		"later, one of several clients":      {3, false, []Client{bob}, slow(alice, alice, alice), false},
		"later, and no client is served":     {0, false, []Client{bob}, slow(alice, alice, alice), true},
		"unknown clients":                    {3, false, nil, quick(Client{}, Client{}, Client{}), true},
		"two before they began":              {0, false, nil, []SessionEnd{{Client: alice, Fault: "x"}, {Client: alice, Fault: "x"}}, false},
		"not enough, since one went well": {
			0, false, nil, append(append(quick(alice, alice), SessionEnd{Client: bob, Began: now - second}), quick(alice, alice)...), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(Limits{Parallel: 1, Failures: after})
			for range test.others {
				h.SessionBegan(Client{}, now-60*second)
			}
			for _, client := range test.known {
				h.SessionEnded(SessionEnd{Client: client}, now-60*second)
			}
			opened := false
			frames := uint64(0)
			for _, e := range test.ends {
				if e.Began != 0 {
					h.SessionBegan(e.Client, e.Began)
				}
				h.SessionEnded(e, now)
				if h.InDoubt(now) != (test.others > 0 && e.Fault != "" && !e.Private) {
					t.Errorf("in doubt: %v", h.InDoubt(now))
				}
				if test.results {
					frames++
					h.Heard(frames, now)
				}
				h.Review(now, Connections{Cap: 8})
				opened = opened || h.circuit.state != Closed
			}
			if opened != test.opens {
				t.Errorf("opened: %v, %+v", opened, h.sessions)
			}
			if n := h.sessions.lasting(now); n != test.others || h.sessions.open != test.others {
				t.Errorf("%d sessions last, %d continue; want %d", n, h.sessions.open, test.others)
			}
		})
	}
}

// When a server's process ends, all its sessions do, one shortly after the other: its circuit opens with the last of them, whoever the
// clients are, and with the fifth client if there are as many.
func TestAllSessionsBreak(t *testing.T) {
	for name, clients := range map[string][]Client{"one": {alice}, "two": {alice, bob}, "many": strangers(50)} {
		h := New(Limits{Parallel: 1, Failures: 5})
		for i := range 50 {
			h.SessionBegan(clients[i%len(clients)], noon-60e9)
		}
		h.Heard(1, noon)
		for i := range 50 {
			h.SessionEnded(SessionEnd{Client: clients[i%len(clients)], Began: noon - 60e9, Fault: "vanished"}, noon)
			h.Review(noon, Connections{Cap: 50})
		}
		if h.circuit.state == Closed {
			t.Errorf("%s: all sessions broke, and the circuit is closed", name)
		}
	}
}

// While few clients' sessions fail, those of others that have only just begun are given two seconds to show whether they are served.
func TestYoungSessions(t *testing.T) {
	for name, lasts := range map[string]bool{"they last": true, "they end, too": false} {
		h := New(Limits{Parallel: 1, Failures: 3})
		end := func(client Client, began, now Instant) {
			h.SessionEnded(SessionEnd{Client: client, Began: began, Fault: "x"}, now)
			h.Heard(uint64(now), now)
			h.Review(now, Connections{Cap: 8})
		}
		h.SessionBegan(Client{}, noon-1)
		for i := range 30 {
			now := noon + Instant(i)*Instant(surelyLasting)/10
			if i == 9 && !lasts {
				end(bob, noon-1, now)
			}
			client := []Client{alice, bob}[i%2]
			h.SessionBegan(client, now)
			if end(client, now, now); h.circuit.state == Open && (lasts || i < 9) {
				t.Fatalf("%s: it opens after %v", name, time.Duration(now-noon))
			}
		}
		if h.circuit.state == Closed && !lasts {
			t.Errorf("%s: it stays closed", name)
		}
	}
}

// Results show that a server works for a while only.
func TestResultsAreForgotten(t *testing.T) {
	h := New(Limits{Parallel: 1, Failures: 3})
	h.SessionBegan(Client{}, noon-60e9)
	h.Heard(1, noon)
	fail := func(client Client, now Instant) {
		h.SessionBegan(client, now)
		h.SessionEnded(SessionEnd{Client: client, Began: now, Fault: "x"}, now)
		h.Heard(1, now)
		h.Review(now, Connections{Cap: 8})
	}
	for range 3 {
		fail(alice, noon)
		fail(bob, noon)
	}
	if h.circuit.state != Closed {
		t.Error("it opens while another session gets results")
	}
	if fail(alice, noon+Instant(resultsWithin)); h.circuit.state != Open {
		t.Error("it stays closed, although sessions no longer get results")
	}
}

// A failure counts beside others' for as long as voteWindow, and each client's once.
func TestVotesExpire(t *testing.T) {
	var votes votes
	known := new(clientele)
	for i, client := range append(strangers(maxVotes+9), strangers(3)...) {
		known.see(client)
		votes.add(known, client, noon+Instant(i))
	}
	if n := votes.since(0); n != maxVotes {
		t.Errorf("%d votes; want %d", n, maxVotes)
	}
	if n := votes.since(noon + maxVotes + 9); n != 3 {
		t.Errorf("%d of these are late; want 3", n)
	}
	h := New(Limits{Parallel: 1, Failures: 3})
	h.SessionBegan(Client{}, noon-60e9)
	for i, client := range strangers(40) {
		now := noon + Instant(i)*Instant(time.Minute)
		h.SessionEnded(SessionEnd{Client: client, Fault: "x"}, now)
		h.Heard(uint64(i)+1, now)
		h.Review(now, Connections{Cap: 8})
	}
	if h.circuit.state != Closed {
		t.Error("single failures within hours add up while the server works")
	}
}

// A server of which few clients' sessions fail is no outlier, however many of these there are.
func TestFewClientsMakeNoOutlier(t *testing.T) {
	for name, test := range map[string]struct {
		clients []Client
		out     bool
	}{"two": {[]Client{alice, bob}, false}, "five": {strangers(5), true}, "one, and there is no other": {[]Client{alice}, true}} {
		h := New(Limits{Parallel: 1, Failures: 5})
		var sessions Sessions
		for i := range 50 {
			sessions.Begin(noon)
			sessions.Fail(noon)
			client := test.clients[i%len(test.clients)]
			h.SessionBegan(client, noon)
			h.SessionEnded(SessionEnd{Client: client, Began: noon, Fault: "x"}, noon)
		}
		if out := h.ComparePeers(&sessions, func() Peers { return Peers{Serving: 3} }, noon); out != test.out {
			t.Errorf("%s: ejected is %v", name, out)
		}
	}
}

// Nor is one of which few clients' own connections fail; that of many makes it one, though they open no circuit. Not even with limits above what is
// remembered does it take more clients than that.
func TestOwnConnectionsMakeAnOutlier(t *testing.T) {
	for name, test := range map[string]struct {
		clients  []Client
		failures int
		out      bool
	}{"one": {strangers(1), 5, false}, "four": {strangers(4), 5, false}, "five": {strangers(5), 5, true}, "all that are remembered": {strangers(200), 200, true}} {
		h := New(Limits{Parallel: 1, Failures: test.failures})
		var sessions Sessions
		for _, client := range []Client{alice, bob} {
			sessions.Begin(noon)
			h.SessionBegan(client, noon-60e9)
			h.SessionEnded(SessionEnd{Client: client, Began: noon - 60e9}, noon)
		}
		for i := range 2 * test.failures {
			sessions.Begin(noon)
			sessions.Fail(noon)
			client := test.clients[i%len(test.clients)]
			h.SessionBegan(client, noon)
			h.SessionEnded(SessionEnd{Client: client, Began: noon, Fault: "x", Private: true}, noon)
		}
		h.Review(noon, Connections{Cap: 8})
		if out := h.ComparePeers(&sessions, func() Peers { return Peers{Serving: 3} }, noon); out != test.out || h.circuit.state != Closed {
			t.Errorf("%s: ejected is %v; the circuit is %v", name, out, h.circuit.state)
		}
	}
}
