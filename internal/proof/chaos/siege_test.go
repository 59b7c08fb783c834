package chaos

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// The proxy holds out against many hostile clients at once: its memory and the number of unfinished handshakes stay bounded, and
// well-behaved clients lose nothing. How long they wait is judged in longer runs only.
func TestSieges(t *testing.T) {
	out, err := hold(t, nil, "slow-handshakes", "half-tls", "ping-floods", "check-networks", "poison", "replay-hogs")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Sieges of 3s each, beside 15 well-behaved sessions", "\nslow-handshakes ", "\nhalf-tls ", "\nping-floods ", "1008: ", "\ncheck-networks ", "\npoison ", "1011: ", "\nreplay-hogs "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// What must not happen in a siege is found.
func TestJudgeSiege(t *testing.T) {
	good := func() *outcome {
		return &outcome{
			load: &load.Result{Figures: load.Figures{Counts: load.Counts{Received: 1}}}, came: arrivals{took: []time.Duration{1}},
			before: 20, memory: 20 + siegeMemory, unfinished: siegeHandshakes, handshakes: 1,
			hostile: 1, visits: visits{Came: 3, Entered: 2, Refused: 1},
		}
	}
	hostile := &scenario{name: "hostile", siege: &siege{clients: 1, effect: enters, dropped: true, judge: endedWith(1008)}}
	for want, change := range map[string]func(o *outcome){
		"": func(*outcome) {},
		"a siege cost well-behaved clients their sessions": func(o *outcome) { o.load.Failed = 1 },
		"a siege kept well-behaved clients out":            func(o *outcome) { o.came.failed = 1 },
		"a siege delayed well-behaved clients that came":   func(o *outcome) { o.came.took[0] = siegeLatency + 1 },
		"a siege made the proxy's memory grow":             func(o *outcome) { o.memory++ },
		"more unfinished handshakes than max-handshakes":   func(o *outcome) { o.unfinished++ },
		"no unfinished handshake was dropped":              func(o *outcome) { o.handshakes = 0 },
		"sessions of hostile clients are left over":        func(o *outcome) { o.sessionsLeft = 1 },
		"a siege took a healthy server out of service":     func(o *outcome) { o.takenOut = []string{"the circuit opened"} },
		"a siege had no effect":                            func(o *outcome) { o.visits.Refused = 2 },
		"a siege did not end as it must":                   func(o *outcome) { o.visits.Came = 5 }, // of which one ended right
		"more connections than the cap":                    func(o *outcome) { o.above = []string{"b: 9"} },
	} {
		r := &run{journal: kit.NewJournal(nil)}
		o := good()
		o.ended = map[uint16]uint64{1008: 1}
		change(o)
		r.judgeSiege(hostile, o, time.Minute)
		found := r.journal.Found()
		if got := len(found); want == "" && got != 0 || want != "" && (got != 1 || found[0].Kind != want) {
			t.Errorf("want %q; got %+v", want, found)
		}
	}
}

// A siege whose clients never came is found, whatever else it is judged by, and so is one that ended right for none of its clients, or for few.
func TestJudgeEffectOfSiege(t *testing.T) {
	for _, test := range []struct {
		siege *siege
		o     outcome
		want  string
	}{
		{&siege{clients: 1}, outcome{visits: visits{Came: 1}}, ""},
		{&siege{clients: 1}, outcome{}, "a siege had no effect"},
		{&siege{}, outcome{}, ""},
		{&siege{clients: 1, judge: endedWith(1008)}, outcome{visits: visits{Came: 1}}, "a siege did not end as it must"},
		{&siege{clients: 20, judge: endedWith(1008)}, outcome{hostile: 20, visits: visits{Came: 40}, ended: map[uint16]uint64{1008: 10}}, ""},
		{&siege{clients: 20, judge: endedWith(1008)}, outcome{hostile: 20, visits: visits{Came: 40}, ended: map[uint16]uint64{1008: 9}}, "a siege did not end as it must"},
		{&siege{clients: 1, judge: refusedWith(431)}, outcome{hostile: 1, visits: visits{Came: 9}, handshakes: 4, refused: map[int]uint64{431: 2}}, ""},
		{&siege{clients: 1, judge: refusedWith(431)}, outcome{hostile: 1, visits: visits{Came: 9}, refused: map[int]uint64{431: 2}}, "a siege did not end as it must"},
		{&siege{clients: 1, effect: someEnter}, outcome{visits: visits{Came: 9, Refused: 9}}, "a siege had no effect"},
		{&siege{clients: 1, judge: someRefused}, outcome{visits: visits{Came: 9}, ended: map[uint16]uint64{1006: 9}}, "a siege did not end as it must"},
		{
			&siege{clients: 1, judge: someRefused},
			outcome{visits: visits{Came: 9}, refused: map[int]uint64{401: 1, 503: 7}},
			"",
		},
	} {
		r := &run{journal: kit.NewJournal(nil)}
		test.o.load = &load.Result{Figures: load.Figures{Counts: load.Counts{Received: 1}}}
		test.o.came.took = []time.Duration{1}
		r.judgeSiege(&scenario{name: "hostile", siege: test.siege}, &test.o, time.Second)
		if got := strings.Join(keys(r.journal), ", "); got != strings.TrimSuffix("hostile: "+test.want, "hostile: ") {
			t.Errorf("%+v: want %q; got %q", test.o, test.want, got)
		}
	}
}

// What a server that dies must not cost is found.
func TestJudgeRestart(t *testing.T) {
	servers := make([]*healthyServer, restartServers)
	for i := range servers {
		var err error
		if servers[i], err = startHealthy("server", sim.Echo, 0, nil, sim.FailOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(servers[i].sim.Close)
	}
	for want, change := range map[string]func(o *outcome, b []api.Backend){
		"":                            func(*outcome, []api.Backend) {},
		"5 sessions failed, and":      func(o *outcome, _ []api.Backend) { o.load.Failed = 5 },
		"server 1, which lived":       func(_ *outcome, b []api.Backend) { b[0].Totals.DialFailed = 1 },
		"leases of server 2 are left": func(_ *outcome, b []api.Backend) { b[1].Totals.Leased++ },
		"3 sessions ended with 1011":  func(o *outcome, _ []api.Backend) { o.ended[1011], o.ended[1000] = 3, 7 },
		"no clients since its return": func(_ *outcome, b []api.Backend) { b[2].Totals = api.Totals{Leased: 4, Discarded: 4} },
		"had all its connections 18s": func(o *outcome, _ []api.Backend) { o.restart.returned = 18 * time.Second },
		"10 of 11 sessions ended":     func(o *outcome, _ []api.Backend) { o.last.Sessions.Total = 11 },
		"it never answered":           func(o *outcome, _ []api.Backend) { o.restart.err = errors.New("it never answered") },
	} {
		backends := make([]api.Backend, len(servers))
		for i, s := range servers {
			backends[i].URL, backends[i].Totals = s.sim.URL(), api.Totals{Leased: 6, Returned: 2, Discarded: 4}
		}
		backends[2].Broken = 4
		o := &outcome{
			load: &load.Result{Figures: load.Figures{Counts: load.Counts{Failed: 4}}}, ended: map[uint16]uint64{1000: 6, 1011: 4},
			last: &api.Stats{Backends: backends}, restart: &restart{servers: servers, cap: 10, leased: 4},
		}
		o.last.Sessions.Total = 10
		change(o, backends)
		if err := cameBack(o); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q; got %v", want, err)
		}
	}
}
