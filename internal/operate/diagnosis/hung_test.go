package diagnosis

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestHung(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	overdue := func(sure, unreplied int, longest float64) *api.Overdue {
		return &api.Overdue{Sessions: sure, Unreplied: unreplied, LongestSeconds: longest, Since: since, PatienceSeconds: 8}
	}
	answers := api.Backend{Name: "b", AnsweredSessions: 12}
	for name, c := range map[string]struct {
		leased  int
		heard   int
		overdue *api.Overdue
		stalled bool
		peer    api.Backend
		want    string
	}{
		"nothing is overdue":           {leased: 8, peer: answers},
		"several are surely owed":      {leased: 8, overdue: overdue(5, 0, 29), heard: 3, want: "hung: 5 of 8 sessions have had no result for up to 29s"},
		"two may be an accident":       {leased: 8, overdue: overdue(2, 0, 60), peer: answers},
		"all of fewer, for long":       {leased: 2, overdue: overdue(2, 0, 31), want: "hung: 2 of 2 sessions have had no result for up to 31s"},
		"all of fewer, not yet":        {leased: 2, overdue: overdue(2, 0, 12)},
		"it is known to have stalled":  {leased: 8, overdue: overdue(8, 0, 60), stalled: true},
		"no first reply, peers answer": {leased: 4, overdue: overdue(0, 4, 16), peer: answers, want: "hung: 4 of 4 sessions have had no first reply for up to 16s, though clients send, and others of stt answer"},
		"silent clients beside others": {leased: 9, overdue: overdue(0, 4, 600), heard: 5, peer: answers},
		"no peer has answered":         {leased: 4, overdue: overdue(0, 4, 600), peer: api.Backend{Name: "b"}},
		"peers have silent ones, too":  {leased: 4, overdue: overdue(0, 4, 600), peer: api.Backend{Name: "b", AnsweredSessions: 9, Overdue: overdue(0, 1, 60), HeardSessions: 8}},
		"a peer of another service":    {leased: 4, overdue: overdue(0, 4, 600), peer: api.Backend{Name: "b", Service: "tts", AnsweredSessions: 9}},
		"too few have answered":        {leased: 4, overdue: overdue(0, 4, 600), peer: api.Backend{Name: "b", AnsweredSessions: 2}},
	} {
		b := api.Backend{Name: "a", Service: "stt", Overdue: c.overdue, HeardSessions: c.heard}
		b.Leased, b.Stalled, b.Reachable = c.leased, c.stalled, true
		if c.peer.Service == "" {
			c.peer.Service = "stt"
		}
		var found findings
		stats := &api.Stats{Backends: []api.Backend{b, c.peer}}
		ofHung(&Facts{Stats: stats, Recent: Recent{Hangs: new(recent).hangsOf(&Observation{Stats: stats})}}, &found)
		got := found.all
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %q", name, got[0].Text)
		case c.want != "" && (len(got) != 1 || got[0].Text != c.want+". Its sessions stay until they are ended: drain it, end them, and restart the server" || !got[0].Since.Equal(since) ||
			got[0].Cure != "wsbouncer backend drain a; wsbouncer session kill --backend a"):
			t.Errorf("%s: got %+v; want %q", name, got, c.want)
		}
	}
}

// A server hangs since it began to, although the sessions that proved it give up and those after them prove nothing for a while: until it is heard,
// is taken out of service, or for a minute.
func TestHangLasts(t *testing.T) {
	s := newStage(t)
	b := &s.facts.Stats.Backends[0]
	hangs := func(int) {
		b.Leased, b.HeardSessions = 4, 0
		b.Overdue = &api.Overdue{Sessions: 4, LongestSeconds: 12, Since: s.now.Add(-12 * time.Second), PatienceSeconds: 8}
	}
	unproven := func(int) { b.Overdue = nil }
	heard := func(int) { b.Overdue, b.HeardSessions = nil, 1 }
	s.pass(5, hangs)
	began := s.out.Problems[0].Since
	if want := noon.Add(-12 * time.Second); !began.Equal(want) || len(s.out.Problems) != 1 {
		t.Errorf("since %v; want %v", began, want)
	}
	for range 4 { // sessions come, wait and give up
		s.pass(20, unproven)
		s.expect("backend-hung")
		s.pass(10, hangs)
	}
	if p := s.out.Problems; len(p) != 1 || !p[0].Since.Equal(began) || len(s.begun) != 1 || len(s.ended) != 0 {
		t.Errorf("%+v, begun %+v, ended %+v", p, s.begun, s.ended)
	}
	s.pass(5, heard)
	s.expect("")
	s.pass(5, hangs)
	if p := s.out.Problems; len(p) != 1 || !p[0].Since.After(began) {
		t.Errorf("another time: %+v", p)
	}
	s.pass(70, unproven)
	s.expect("")
	s.pass(5, hangs)
	s.pass(5, func(second int) {
		unproven(second)
		b.State = "draining"
	})
	s.expect("backend-draining")
}

// Sessions of a service with failover need not be ended: they move.
func TestHungWithFailover(t *testing.T) {
	f := well()
	f.Stats.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "always"}
	f.Recent.Hangs = map[BackendName]Hang{{"stt", "gpu-1"}: {Since: since, Text: "hung: 3 of 3 sessions have had no result for up to 29s"}}
	all := Find(f)
	if len(all) != 1 || all[0].Cure != "wsbouncer backend drain gpu-1 --move" || all[0].Text != "hung: 3 of 3 sessions have had no result for up to 29s. Drain it, which moves its sessions, and restart the server" {
		t.Errorf("%+v", all)
	}
}
