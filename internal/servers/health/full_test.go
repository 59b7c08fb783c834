package health

import (
	"testing"
	"time"
)

// One client whom the server refuses again and again, perhaps because of what it says, neither keeps it from others for long nor lowers its
// ceiling; two clients do.
func TestOneClientIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		refused []Client
		full    bool
	}{"one client": {[]Client{alice, neighbour}, false}, "two clients": {[]Client{alice, bob}, true}, "unknown clients": {[]Client{{}}, true}} {
		h := New(Limits{Parallel: 4, Failures: 5})
		h.hold.random, h.ceiling.random = func(time.Duration) time.Duration { return 0 }, func(time.Duration) time.Duration { return 0 }
		h.SessionBegan(alice, noon)
		h.SessionBegan(bob, noon)
		now, longest := noon, time.Duration(0)
		for i := range 20 {
			h.SessionRefused(test.refused[i%len(test.refused)], 2, now)
			h.Review(now, Connections{Cap: 8, InUse: 3})
			begin := now
			for h.Held(now) {
				now += Instant(time.Millisecond)
			}
			longest = max(longest, time.Duration(now-begin))
		}
		if full := h.Ceiling().Value > 0; full != test.full || (longest > FirstHold) != test.full {
			t.Errorf("%s: ceiling %d, held for %v", name, h.Ceiling().Value, longest)
		}
	}
	h := New(Limits{Parallel: 4, Failures: 5})
	h.SessionBegan(alice, noon)
	h.SessionBegan(bob, noon)
	if h.SessionRefused(alice, 2, noon); !h.RefusesOnly(neighbour, noon) || h.RefusesOnly(bob, noon) || !h.RefusesOnly(bob, noon+Instant(refusedWithin)+1) {
		t.Error("it is not known whom the server refuses")
	}
}

// So does one client for whom a server has no connection. If it has none for a second client either, it is full, or broken if it holds none at all,
// unless it has accepted another meanwhile.
func TestOneClientIsTurnedAway(t *testing.T) {
	several, lone := []Client{alice, bob}, []Client{alice}
	for name, test := range map[string]struct {
		known  []Client
		dialed []Client // the zero value is for one who is accepted
		held   int
		full   bool
	}{
		"one client":                  {several, []Client{alice, neighbour}, 3, false},
		"one client, nothing held":    {several, []Client{alice, neighbour}, 0, false},
		"two clients":                 {several, []Client{alice, bob}, 3, true},
		"two clients, nothing held":   {several, []Client{alice, bob}, 0, true},
		"others are accepted between": {several, []Client{alice, {}, bob, {}}, 3, false},
		"there is no other client":    {lone, []Client{alice}, 3, true},
	} {
		h := New(Limits{Parallel: 4, Failures: 5})
		h.circuit.random = func(time.Duration) time.Duration { return 0 }
		for _, client := range test.known {
			h.SessionBegan(client, noon)
		}
		now := noon
		for i := range 40 {
			client := test.dialed[i%len(test.dialed)]
			r := DialResult{Outcome: Full, Private: true, Client: client, Pool: Connections{Cap: 8, Held: test.held, All: test.held + 1}}
			if client == (Client{}) {
				r = DialResult{Outcome: Established, Private: true}
			}
			only := h.DialEnded(h.Dial(now), r, now)
			h.Review(now, Connections{Cap: 8})
			if r.Outcome == Full && !test.full && (!only || !h.Held(now) || h.Held(now+Instant(FirstHold))) {
				t.Errorf("%s: it is not held for this client", name)
			}
			now += Instant(FirstHold)
		}
		well := h.circuit.state == Closed && h.Ceiling().Value == 0 && h.parallel > 1
		if well == test.full || test.full && (h.circuit.state == Closed) != (test.held > 0) {
			t.Errorf("%s: circuit %v, ceiling %d", name, h.circuit.state, h.Ceiling().Value)
		}
	}
}

// A client whose values get no answer is to go to another server, so this one is held for a moment.
func TestUnansweredIsHeld(t *testing.T) {
	h := New(Limits{Parallel: 4, Failures: 5})
	h.SessionBegan(alice, noon)
	h.SessionBegan(bob, noon)
	if only := h.DialEnded(h.Dial(noon), DialResult{Outcome: Failed, Unanswered: true, Private: true, Client: alice}, noon); !only || !h.Held(noon) {
		t.Errorf("for that client only: %v, held: %v", only, h.Held(noon))
	}
	if h.Held(noon + Instant(FirstHold)) {
		t.Error("it is held for longer than that")
	}
}

// A server that is full in a trial answers, so that the trial is over.
func TestFullInATrial(t *testing.T) {
	h := New(Limits{Parallel: 4, Failures: 1})
	h.circuit.random = func(time.Duration) time.Duration { return 0 }
	h.DialEnded(h.Dial(noon), DialResult{Outcome: Failed, Reason: "refused"}, noon)
	at := noon + Instant(time.Minute)
	h.Review(at, Connections{Cap: 4})
	if h.circuit.state != HalfOpen {
		t.Fatalf("the circuit is %v", h.circuit.state)
	}
	h.DialEnded(h.Dial(at), DialResult{Outcome: Full, Pool: Connections{Cap: 4, Held: 3, All: 4}}, at)
	if h.circuit.state != Closed || h.Ceiling().Value != 3 {
		t.Errorf("the circuit is %v, the ceiling %d", h.circuit.state, h.Ceiling().Value)
	}
}
