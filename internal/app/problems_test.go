package app

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A server that is dead or hangs has no first reply to show.
func TestReplies(t *testing.T) {
	for name, c := range map[string]struct {
		backend api.Backend
		want    bool
	}{
		"well":    {api.Backend{Health: api.Health{Reachable: true}}, true},
		"slow":    {api.Backend{Health: api.Health{Reachable: true}, Condition: api.Condition{Word: "slow"}}, true},
		"dead":    {api.Backend{}, false},
		"stalled": {api.Backend{Health: api.Health{Reachable: true, Stalled: true}}, false},
		"hung":    {api.Backend{Health: api.Health{Reachable: true}, Condition: api.Condition{Word: api.Hung}}, false},
	} {
		if got := replies(&c.backend); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
