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
