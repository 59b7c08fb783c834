package relay

import (
	"reflect"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

func TestLagOfBackend(t *testing.T) {
	const s, quick = time.Second, 30 * time.Millisecond
	talks := &waiting{Timing: Timing{Sending: true, Lag: s, ServerSilent: s}, firstReply: quick}
	owes := func(d time.Duration) *waiting {
		return &waiting{Timing: Timing{Sending: true, Lag: d + s, Owed: d, ServerSilent: d}, firstReply: quick, told: true}
	}
	never := func(d time.Duration, sending bool) *waiting {
		return &waiting{Timing: Timing{Sending: sending, Unreplied: d, ServerSilent: d}}
	}
	for name, c := range map[string]struct {
		sessions []*waiting
		want     Lag
	}{
		"none":               {nil, Lag{}},
		"all talk":           {[]*waiting{talks, talks}, Lag{Longest: s, Median: s, Answered: 2, Heard: 2}},
		"not yet overdue":    {[]*waiting{owes(8 * s), owes(2 * s), owes(0)}, Lag{Longest: 9 * s, Median: 3 * s, Owed: 8 * s, Answered: 3, Heard: 2 + 1}},
		"overdue":            {[]*waiting{owes(9 * s), owes(29 * s), talks}, Lag{Longest: 30 * s, Median: 10 * s, Owed: 29 * s, Answered: 3, Overdue: 2, OverdueFor: 29 * s, Heard: 1}},
		"silent for long":    {[]*waiting{{Timing: Timing{ServerSilent: 60 * s}, firstReply: quick}}, Lag{Answered: 1}},
		"never replied":      {[]*waiting{never(16*s, true), never(9*s, true), never(3*s, true)}, Lag{FirstReplyOwed: 9 * s, Unreplied: 2, OverdueFor: 16 * s}},
		"the client waits":   {[]*waiting{never(16*s, false)}, Lag{FirstReplyOwed: 16 * s}},
		"few of many":        {[]*waiting{talks, talks, talks, never(16*s, true)}, Lag{Longest: s, Median: s, Answered: 3, Heard: 3, Unreplied: 1, OverdueFor: 16 * s}},
		"most of all":        {[]*waiting{talks, never(16*s, true), never(12*s, true)}, Lag{Longest: s, Answered: 1, Heard: 1, FirstReplyOwed: 12 * s, Unreplied: 2, OverdueFor: 16 * s}},
		"owed for a moment":  {[]*waiting{talks, never(quick/2, true), never(quick/3, true)}, Lag{Longest: s, Answered: 1, Heard: 1}},
		"owed is known, too": {[]*waiting{{Timing: Timing{Sending: true, Unreplied: 60 * s, ServerSilent: 60 * s}, told: true}}, Lag{FirstReplyOwed: 60 * s}},
	} {
		c.want.Patience = leastPatience
		if got := lagOf(c.sessions, leastPatience); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

// What is late is known of some sessions only; 95 % of those are at most so late.
func TestLateness(t *testing.T) {
	var sessions []*waiting
	for i := range 100 {
		sessions = append(sessions, &waiting{Timing: Timing{Late: time.Duration(i) * time.Second, Timed: true}, service: new(route.Service)})
	}
	late := func(n int) backend.LagReading { return lagOf(sessions[:n], leastPatience).Late }
	for n, want := range map[int]time.Duration{1: 0, 10: 9 * time.Second, 20: 18 * time.Second, 100: 94 * time.Second} {
		if got := late(n).Lag; got != want {
			t.Errorf("of %d sessions: %v; want %v", n, got, want)
		}
	}
	if worst := late(100).Worst; len(worst) != mostLate || worst[0].Lag != 99*time.Second || worst[1].Lag != 98*time.Second {
		t.Errorf("the worst of 100 sessions: %v", worst)
	}
	for _, s := range sessions {
		s.Timed = false
	}
	if got := late(100); got.Lag != 0 || got.Worst != nil {
		t.Errorf("of sessions of which it is not known: %v", got)
	}
}

// A backend whose sessions often wait long for their first reply is given more time: by its own history, or that of its service.
func TestPatience(t *testing.T) {
	history := func(n int, d time.Duration) *meter.Distribution {
		h := meter.NewHistogram(time.Second, 5*time.Second, 10*time.Second)
		for range n {
			h.Observe(d)
		}
		read := h.Read()
		return &read
	}
	none := history(0, 0)
	for name, c := range map[string]struct {
		own, all    *meter.Distribution
		least, most time.Duration
	}{
		"no history":           {none, none, leastPatience, leastPatience},
		"too little":           {history(19, 9*time.Second), history(19, 9*time.Second), leastPatience, leastPatience},
		"a quick server":       {history(100, time.Millisecond), none, leastPatience, leastPatience},
		"a slow server":        {history(100, 7*time.Second), none, 28 * time.Second, 40 * time.Second},
		"a new one among slow": {history(3, time.Millisecond), history(100, 7*time.Second), 28 * time.Second, 40 * time.Second},
	} {
		if got := patience(c.own, c.all); got < c.least || got > c.most {
			t.Errorf("%s: %v; want %v to %v", name, got, c.least, c.most)
		}
	}
}
