package diagnosis

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestHung(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	overdue := func(sure, unreplied, heard int, longest float64) *api.Overdue {
		return &api.Overdue{Sessions: sure, Unreplied: unreplied, Heard: heard, LongestSeconds: longest, Since: since, PatienceSeconds: 8}
	}
	answers := api.Backend{Name: "b", AnsweredSessions: 12}
	for name, c := range map[string]struct {
		leased  int
		overdue *api.Overdue
		stalled bool
		peer    api.Backend
		want    string
	}{
		"nothing is overdue":           {leased: 8, peer: answers},
		"several are surely owed":      {leased: 8, overdue: overdue(5, 0, 3, 29), want: "hung: 5 of 8 sessions have had no result for up to 29s"},
		"two may be an accident":       {leased: 8, overdue: overdue(2, 0, 0, 60), peer: answers},
		"all of fewer, for long":       {leased: 2, overdue: overdue(2, 0, 0, 31), want: "hung: 2 of 2 sessions have had no result for up to 31s"},
		"all of fewer, not yet":        {leased: 2, overdue: overdue(2, 0, 0, 12)},
		"it is known to have stalled":  {leased: 8, overdue: overdue(8, 0, 0, 60), stalled: true},
		"no first reply, peers answer": {leased: 4, overdue: overdue(0, 4, 0, 16), peer: answers, want: "hung: 4 of 4 sessions have had no first reply for up to 16s, though clients send, and others of stt answer"},
		"silent clients beside others": {leased: 9, overdue: overdue(0, 4, 5, 600), peer: answers},
		"no peer has answered":         {leased: 4, overdue: overdue(0, 4, 0, 600), peer: api.Backend{Name: "b"}},
		"peers have silent ones, too":  {leased: 4, overdue: overdue(0, 4, 0, 600), peer: api.Backend{Name: "b", AnsweredSessions: 9, Overdue: overdue(0, 1, 8, 60)}},
		"a peer of another service":    {leased: 4, overdue: overdue(0, 4, 0, 600), peer: api.Backend{Name: "b", Service: "tts", AnsweredSessions: 9}},
		"too few have answered":        {leased: 4, overdue: overdue(0, 4, 0, 600), peer: api.Backend{Name: "b", AnsweredSessions: 2}},
	} {
		b := api.Backend{Name: "a", Service: "stt", Overdue: c.overdue}
		b.Leased, b.Stalled, b.Reachable = c.leased, c.stalled, true
		if c.peer.Service == "" {
			c.peer.Service = "stt"
		}
		var found findings
		ofHung(&Facts{Stats: &api.Stats{Backends: []api.Backend{b, c.peer}}}, &found)
		got := found.all
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q", name, got[0].Text)
		case c.want != "" && (len(got) != 1 || got[0].Text != c.want || !got[0].Since.Equal(since) || got[0].Cure != "wsbouncer backend drain a"):
			t.Errorf("%s: got %+v; want %q", name, got, c.want)
		}
	}
}
