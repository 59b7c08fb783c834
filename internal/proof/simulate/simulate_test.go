package simulate

import (
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	o := Options{Proxies: 12, Servers: 3, Cap: 60, Seed: 1, Time: 30 * time.Second, Load: 0.7, Session: 10 * time.Second, Shift: 20 * time.Second, Warm: 1}
	r := Run(o)
	t.Log(r)
	if r.Above > 0 {
		t.Errorf("there were more connections than places %d times", r.Above)
	}
	if len(r.Waited) == 0 || r.Percentile(1) > 2*time.Second {
		t.Errorf("of %d clients that waited for a place to move, one waited %v", len(r.Waited), r.Percentile(1))
	}
	if r.Unfair > 10 {
		t.Errorf("%.1f %% of the places are not where they would be fair", r.Unfair)
	}
	if again := Run(o); again.String() != r.String() {
		t.Errorf("another run with the same seed differs: %v", again)
	}
}
