package peers

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Two proxies that have one name are told of, but not a process that has just taken over from another one.
func TestOneName(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		first, second time.Duration // how long they have run
		state         fleet.State
		want          bool
	}{
		{time.Hour, clashAfter, fleet.Serving, true},
		{time.Hour, time.Second, fleet.Serving, false},
		{time.Hour, time.Hour, fleet.Draining, false},
		{time.Hour, time.Hour, fleet.Starting, false},
	} {
		v := View{Self: "b", Members: []fleet.Member{
			{ID: "a", Name: "stt", State: c.state, Started: now.Add(-c.first)}, {ID: "b", Name: "stt", State: fleet.Serving, Started: now.Add(-c.second)},
		}}
		for _, p := range v.Shown(now).Proxies {
			if got := strings.Contains(p.Problem, "the same name"); got != c.want {
				t.Errorf("%+v: %s has the problem %q", c, p.ID, p.Problem)
			}
		}
	}
}

// Clients come back by way of another proxy that reaches this one at its address, with a token, or at its socket, from the same directory.
func TestReachable(t *testing.T) {
	self := fleet.Member{ID: "a", Host: "here", Instance: "i", Address: "http://127.0.0.1:9090"}
	for name, c := range map[string]struct {
		change        func(self, other *fleet.Member)
		token, socket bool
		want          bool
	}{
		"a token":                     {nil, true, false, true},
		"a socket":                    {nil, false, true, true},
		"neither":                     {nil, false, false, false},
		"no address":                  {func(self, _ *fleet.Member) { self.Address = "" }, true, false, false},
		"loopback of another host":    {func(_, other *fleet.Member) { other.Host = "there" }, true, true, false},
		"another directory":           {func(_, other *fleet.Member) { other.Instance = "j" }, false, true, false},
		"directories without a lock":  {func(self, other *fleet.Member) { self.Instance, other.Instance = "", "" }, false, true, true},
		"it drains, too":              {func(_, other *fleet.Member) { other.State = fleet.Draining }, true, true, false},
		"the other one is this proxy": {func(_, other *fleet.Member) { other.ID = "a" }, true, true, false},
	} {
		members := []fleet.Member{self, {ID: "b", Host: "here", Instance: "i"}}
		if c.change != nil {
			c.change(&members[0], &members[1])
		}
		if v := (&View{Self: "a", Members: members}); v.Reachable(c.token, c.socket) != c.want {
			t.Errorf("%s: want %t", name, c.want)
		}
	}
	if (&View{Members: []fleet.Member{self}}).Reachable(true, true) {
		t.Error("without a fleet")
	}
}
