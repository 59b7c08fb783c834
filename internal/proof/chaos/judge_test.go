package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// keys are what a journal has found.
func keys(j *kit.Journal) (keys []string) {
	for _, v := range j.Found() {
		keys = append(keys, v.Place+": "+v.Kind)
	}
	return keys
}

// Which ends a session may have depends on the server that it landed on.
func TestJudge(t *testing.T) {
	closed := func(code frame.CloseCode) hunt.Outcome {
		return hunt.Outcome{Kind: "close " + code.String(), Code: code}
	}
	refused := func(status int) hunt.Outcome { return hunt.Outcome{Kind: "HTTP", Status: status} }
	completed := hunt.Outcome{Completed: true}
	plain := &scenario{}
	for _, test := range []struct {
		name     string
		scenario *scenario // nil: healthy servers alone
		heard    bool
		outcome  hunt.Outcome
		want     string
	}{
		{"well", nil, true, completed, ""},
		{"well, and it was not heard", nil, false, completed, ""},
		{"broken", nil, true, closed(1011), "close 1011, on a healthy server"},
		{"refused", nil, false, refused(503), "HTTP, on no healthy server"},
		{"broken beside a hostile server", plain, true, closed(1011), "close 1011, on a healthy server"},
		{"broken by a hostile server", plain, false, closed(1011), ""},
		{"closed by a hostile server", plain, false, closed(1008), "close 1008, on no healthy server"},
		{"closed as it may", &scenario{allow: allowance{codes: []frame.CloseCode{1008}}}, false, closed(1008), ""},
		{"refused by a hostile server", plain, false, refused(401), "HTTP, on no healthy server"},
		{"refused as it may", &scenario{allow: allowance{statuses: []int{401}}}, false, refused(401), ""},
		{"timeout", plain, false, hunt.Outcome{Kind: hunt.Timeout}, "timeout, on no healthy server"},
		{"timeout as it may", &scenario{allow: allowance{kinds: []string{hunt.Timeout}}}, false, hunt.Outcome{Kind: hunt.Timeout}, ""},
		{"lost", plain, true, hunt.Outcome{Completed: true, Lost: 1}, "results lost, on a healthy server"},
		{"mute", plain, true, hunt.Outcome{Completed: true, Mute: true}, "results lost, on a healthy server"},
		{"twice", plain, true, hunt.Outcome{Completed: true, Twice: 1}, "results twice, on a healthy server"},
		{"foreign", plain, true, hunt.Outcome{Completed: true, Foreign: 1}, "foreign results, on a healthy server"},
		{"foreign from nowhere", plain, false, hunt.Outcome{Completed: true, Foreign: 1}, "foreign results, on no healthy server"},
		{
			"foreign from a server that says such", &scenario{allow: allowance{results: true}}, false,
			hunt.Outcome{Completed: true, Foreign: 1},
			"",
		},
		{
			"foreign beside one", &scenario{allow: allowance{results: true}}, true,
			hunt.Outcome{Completed: true, Foreign: 1},
			"foreign results, on a healthy server",
		},
		{"given up", nil, true, hunt.Outcome{}, "not completed, on a healthy server"},
	} {
		w := &healthyServer{name: "w", heard: map[uint64]struct{}{}}
		s := &service{name: "s", healthy: []*healthyServer{w}, scenario: test.scenario, journal: kit.NewJournal(nil)}
		if test.scenario != nil {
			s.hostile = &hostile{}
		}
		if test.heard {
			w.heard[7] = struct{}{}
		}
		test.outcome.Session = 7
		test.outcome.Trace = func() string { return "" }
		s.judge(test.outcome)
		var want []string
		if test.want != "" {
			want = []string{"s: " + test.want}
		}
		if got := keys(s.journal); !slices.Equal(got, want) {
			t.Errorf("%s: got %q; want %q", test.name, got, want)
		}
		if len(w.heard) > 0 {
			t.Errorf("%s: the session is not forgotten", test.name)
		}
	}
}

// A service most of whose sessions fail is a black hole, unless what the hostile server says is for its clients.
func TestBlackHole(t *testing.T) {
	judged := func(s *scenario, completed, failed int) []string {
		v := &service{name: "s", sessions: 1, scenario: s, hostile: &hostile{}, journal: kit.NewJournal(nil)}
		v.report.Sessions, v.report.Completed = completed+failed, completed
		v.judgeAll()
		return keys(v.journal)
	}
	if got := judged(&scenario{}, 40, 60); !slices.Equal(got, []string{"s: black hole"}) {
		t.Errorf("got %q", got)
	}
	if got := judged(&scenario{}, 60, 40); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := judged(&scenario{private: true, allow: allowance{refusal: true}}, 40, 60); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if got := judged(&scenario{}, 0, 5); !slices.Equal(got, []string{"s: no session got its last result"}) {
		t.Errorf("got %q", got)
	}
}

// The watcher finds statistics that cannot be.
func TestWatcherJudges(t *testing.T) {
	for want, change := range map[string]func(b *api.Backend){
		"":                                 func(*api.Backend) {},
		"s: more connections than the cap": func(b *api.Backend) { b.Dialing = 4 },
		"s: leases do not add up":          func(b *api.Backend) { b.Totals.Leased++ },
		"s: connections do not add up":     func(b *api.Backend) { b.Totals.Dialed++ },
		"s: the circuit of a healthy server opened": func(b *api.Backend) { b.CircuitOpened = 1 },
		"s: a healthy server has broken sessions":   func(b *api.Backend) { b.Broken = 1 },
	} {
		b := api.Backend{Name: "w", Service: "s", URL: "ws://well"}
		b.Pool = api.Pool{Cap: 10, Idle: 4, Leased: 2, Resetting: 1, Totals: api.Totals{
			Dialed: 12, Leased: 20, Returned: 13, Discarded: 4, RetiredIdle: 1,
		}}
		change(&b)
		w := newWatcher(&proxy{Proxy: &kit.Proxy{Name: "main"}}, nil, kit.NewJournal(nil), nil)
		w.healthy["ws://well"] = true
		w.judge(&api.Stats{Backends: []api.Backend{b}})
		if got := strings.Join(keys(w.journal), ", "); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	// The operator may lower a cap below the number of open connections, but no server may see more than the highest cap.
	for used, want := range map[int]int{20: 0, 21: 1} {
		b := api.Backend{Name: "o", Service: "operated"}
		b.Pool = api.Pool{Cap: 3, Dialing: used}
		w := newWatcher(&proxy{Proxy: &kit.Proxy{Name: "main"}}, nil, kit.NewJournal(nil), &service{name: "operated", cap: 20})
		w.judge(&api.Stats{Backends: []api.Backend{b}})
		if got := keys(w.journal); len(got) != want {
			t.Errorf("%d connections: got %q", used, got)
		}
	}
	// An open circuit and broken sessions of a hostile server are no findings.
	b := api.Backend{Name: "h", Service: "s", URL: "ws://hostile"}
	b.CircuitOpened, b.Broken = 1, 1
	w := newWatcher(&proxy{Proxy: &kit.Proxy{Name: "main"}}, nil, kit.NewJournal(nil), nil)
	w.judge(&api.Stats{Backends: []api.Backend{b}})
	if got := keys(w.journal); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// A cap that is exceeded between two looks only is not told; each server is looked at for itself.
func TestWatcherCompares(t *testing.T) {
	w := newWatcher(&proxy{Proxy: &kit.Proxy{Name: "main"}}, nil, kit.NewJournal(nil), nil)
	s := &service{name: "s"}
	w.compare(s, "a", 9, 8)
	w.compare(s, "b", 9, 8)
	w.compare(s, "a", 8, 8)
	w.compare(s, "a", 9, 8)
	if got := keys(w.journal); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	w.compare(s, "b", 9, 8)
	if got := keys(w.journal); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// The watcher finds floods, and caps that are exceeded for longer than a moment.
func TestWatcherCounts(t *testing.T) {
	h := &hostile{name: "h", meter: new(meter)}
	s := &service{name: "s", hostile: h}
	w := newWatcher(&proxy{Proxy: &kit.Proxy{Name: "main"}}, nil, kit.NewJournal(nil), nil)
	for range hostileCap + 1 {
		h.meter.entered()
	}
	if w.count(s); len(keys(w.journal)) > 0 {
		t.Errorf("at the first look: got %q", keys(w.journal))
	}
	w.count(s)
	now := time.Now()
	for range maxBurst + 1 {
		h.meter.attempt(now)
	}
	w.count(s)
	if got := keys(w.journal); !slices.Equal(got, []string{"s: a server saw more connections than its cap", "s: flood"}) {
		t.Errorf("got %q", got)
	}
}

func TestMeter(t *testing.T) {
	m := new(meter)
	begin := time.Now()
	for i := range 30 { // ten a second
		m.attempt(begin.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	m.entered()
	m.entered()
	m.left()
	m.entered()
	if got, want := m.read(), (reading{open: 2, peak: 2, attempts: 30, burst: 10}); got != want {
		t.Errorf("got %+v; want %+v", got, want)
	}
}

// Each scenario is of one kind, and whole.
func TestScenarios(t *testing.T) {
	services := []string{"echo", "vosk", "funasr", "keys", "operated"}
	seen := make(map[string]bool)
	for _, s := range scenarios() {
		if s.name == "" || s.about == "" || seen[s.name] || slices.Contains(services, s.name) {
			t.Errorf("scenario %q (%s) needs a name of its own and a description", s.name, s.about)
		}
		seen[s.name] = true
		kinds := 0
		for _, is := range []bool{s.behave != nil && s.attack == nil, s.simulated != nil, s.attack != nil, s.operate != nil, s.machine != nil, s.siege != nil} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s: is of %d kinds", s.name, kinds)
		}
		if s.attack != nil && s.behave == nil && !slices.Contains(services, s.visits) {
			t.Errorf("%s: there is no service %q to visit", s.name, s.visits)
		}
		if s.attack != nil && s.effect == nil && s.name != "never-asks" && s.name != "says-nothing" { // their visits end in no other way
			t.Errorf("%s: nothing says what its visits must come to", s.name)
		}
		if v := s.siege; v != nil && v.clients > 0 && v.effect == nil && v.judge == nil && !v.dropped && s.name != "connect-floods" { // which only connect
			t.Errorf("%s: nothing says what effect it must have", s.name)
		}
		if s.machine != nil && s.protocol == "" {
			t.Errorf("%s: a machine needs a protocol", s.name)
		}
	}
	if len(seen) < 60 {
		t.Errorf("there are only %d", len(seen))
	}
}
