//go:build linux

package fleetproof

import (
	"context"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Sessions may fail only while their proxy has an excuse, and in a drain only those that had not begun.
func TestCrowdJudges(t *testing.T) {
	refused := hunt.Outcome{Kind: "HTTP", Status: 503}
	reset := hunt.Outcome{Kind: hunt.Reset}
	foreign := hunt.Outcome{Completed: true, Foreign: 1}
	cut := hunt.Outcome{Kind: "close", Code: frame.GoingAway}
	later := func(o hunt.Outcome) hunt.Outcome { // of a session that began when the next process served
		o.Began = time.Now().Add(time.Hour)
		return o
	}
	for _, test := range []struct {
		name            string
		outcome         hunt.Outcome
		trace           string
		killed, drained bool
		violations      int
	}{
		{"well", hunt.Outcome{Completed: true}, "", false, false, 0},
		{"refused", refused, "", false, false, 1},
		{"refused by a proxy that drains", refused, "", false, true, 0},
		{"reset", reset, "", false, false, 1},
		{"reset by a proxy that was killed", reset, "received", true, false, 0},
		{"reset by a proxy that drains", reset, "", false, true, 0},
		{"reset by a proxy that drains, in its midst", reset, "received text", false, true, 1},
		{"closed by a proxy that drains", cut, "received text", false, true, 1},
		{"reset by the next process", later(reset), "received", true, false, 1},
		{"refused by the next process", later(refused), "", true, false, 1},
		{"another one's echo from a proxy that was killed", foreign, "", true, false, 1},
	} {
		c := newCrowd(context.Background(), 1, 1, kit.NewJournal(nil))
		switch {
		case test.killed:
			c.excuse(0, "killed", false)
			c.pardon(0, time.Now())
		case test.drained:
			c.excuse(0, "drained", true)
		}
		test.outcome.Trace = func() string { return test.trace }
		c.outcome(0, test.outcome)
		if n := len(c.journal.Found()); n != test.violations {
			t.Errorf("%s: %d violations", test.name, n)
		}
	}
}
