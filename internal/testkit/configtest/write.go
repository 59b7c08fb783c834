package configtest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

func testEmpty(t *testing.T, p Place) {
	s := p.open(t)
	first := load(t, s)
	same(t, "a new place", first.Content(), config.NewContent())
	if first.Version() == "" || load(t, s).Version() != first.Version() {
		t.Errorf("versions of the same configuration: %q, %q", first.Version(), load(t, s).Version())
	}
	if h := history(t, s, 10); len(h) != 0 {
		t.Errorf("it has a history: %v", h)
	}
}

func testRoundTrip(t *testing.T, p Place) {
	s := p.open(t)
	want := Unusual(t)
	written := replace(t, s, want)
	same(t, "what Apply returns", written.Content(), want)
	read := load(t, p.other(t, s))
	same(t, "what another store loads", read.Content(), want)
	if read.Version() != written.Version() {
		t.Errorf("written is version %q, loaded %q", written.Version(), read.Version())
	}
}

func testDefaults(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Unusual(t))
	values := make(config.Values)
	for _, f := range config.Fields(config.KindBackend) {
		if f.Name != "service" && f.Name != "url" {
			values[f.Name] = ""
		}
	}
	apply(t, s, config.Change{Mutations: append(set("all.fields_1", values),
		config.Mutation{Verb: config.Set, Kind: config.KindService, Name: "all-1", Values: config.Values{"queue": "", "queue-timeout": ""}})})
	content := load(t, p.other(t, s)).Content()
	want := config.DefaultBackend()
	got := content.Backends["all.fields_1"]
	want.Service, want.URL = got.Service, got.URL
	one, two := config.NewContent(), config.NewContent()
	one.Backends["b"], two.Backends["b"] = got, want
	same(t, "a backend set back", one, two)
}

func testMutations(t *testing.T, p Place) {
	s := p.open(t)
	want := Small()
	replace(t, s, want)
	apply(t, s, config.Change{Mutations: []config.Mutation{
		{Verb: config.Add, Kind: config.KindProfile, Name: "mine", Values: config.Values{"yaml": "from: echo"}},
		{Verb: config.Add, Kind: config.KindService, Name: "mt", Values: config.Values{"path": "/v1/mt", "profile": "mine"}},
		{Verb: config.Add, Kind: config.KindBackend, Name: "gpu-9", Values: config.Values{"service": "mt", "url": "ws://10.9.9.9/", "connections": "100"}},
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"connections": "48", "labels.rack": "3", "labels.zone": ""}},
		{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-2"},
	}})
	want.Profiles["mine"] = config.Profile{YAML: "from: echo\n"}
	service := config.DefaultService()
	service.Path, service.Profile = "/v1/mt", "mine"
	want.Services["mt"] = service
	b := config.DefaultBackend()
	b.Service, b.URL = "mt", "ws://10.9.9.9/"
	want.Backends["gpu-9"] = b
	b = want.Backends["gpu-1"]
	b.Connections, b.Labels = 48, map[string]string{"rack": "3"}
	want.Backends["gpu-1"] = b
	delete(want.Backends, "gpu-2")
	same(t, "after mutations", load(t, p.other(t, s)).Content(), want)

	// One change may remove entities and change those that refer to them.
	apply(t, s, config.Change{Mutations: []config.Mutation{
		{Verb: config.Remove, Kind: config.KindService, Name: "mt"},
		{Verb: config.Remove, Kind: config.KindProfile, Name: "mine"},
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-9", Values: config.Values{"service": "stt"}},
	}})
	content := load(t, s).Content()
	if content.Has(config.KindService, "mt") || content.Has(config.KindProfile, "mine") || content.Backends["gpu-9"].Service != "stt" {
		t.Errorf("after removal: %+v", content)
	}
}

func testRefused(t *testing.T, p Place) {
	s := p.open(t)
	want := replace(t, s, Small())
	revisions := len(history(t, s, 10))
	invalid := Small()
	b := invalid.Backends["gpu-1"]
	b.Service, b.Connections, b.State = "st", 0, "drained"
	invalid.Backends["gpu-1"] = b
	for _, c := range []struct {
		name   string
		change config.Change
		says   []string
	}{
		{"content", config.Change{Who: "x", Expect: want.Version(), Content: &invalid}, []string{
			`backend gpu-1: service: unknown service "st": did you mean "stt"?`, "backend gpu-1: connections: invalid number \"0\": use a whole number from 1 to 100000",
			`backend gpu-1: state: unknown state "drained"`,
		}},
		{"mutation", config.Change{Who: "x", Mutations: set("gpu-1", config.Values{"warm": "33"})}, []string{
			`backend gpu-1: warm: invalid number "33": use a whole number from 0 to the cap of 32 connections`,
		}},
		{"half of it", config.Change{Who: "x", Mutations: append(set("gpu-1", config.Values{"connections": "5"}),
			set("gpu-11", config.Values{"warm": "1"})...)}, []string{`unknown backend "gpu-11": did you mean "gpu-1"?`}},
		{
			"service in use",
			config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindService, Name: "stt"}}},
			[]string{`backend gpu-1: service: unknown service "stt"`, `backend gpu-2: service:`},
		},
		{
			"there already",
			config.Change{Who: "x", Mutations: []config.Mutation{{Verb: config.Add, Kind: config.KindBackend, Name: "gpu-1"}}},
			[]string{"backend gpu-1: already exists"},
		},
		{"no author", config.Change{Mutations: set("gpu-1", config.Values{"warm": "1"})}, []string{"who is missing"}},
		{"no version", config.Change{Who: "x", Content: &invalid}, []string{"a whole configuration needs the version"}},
	} {
		_, err := s.Apply(t.Context(), c.change)
		if err == nil {
			t.Errorf("%s: it was accepted", c.name)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: the error is\n%v\nand should say\n%s", c.name, err, says)
			}
		}
	}
	now := load(t, s)
	same(t, "after what was refused", now.Content(), want.Content())
	if now.Version() != want.Version() || len(history(t, s, 10)) != revisions {
		t.Errorf("version %s became %s, with the history %v", want.Version(), now.Version(), history(t, s, 10))
	}
}

func testProfileCheck(t *testing.T, p Place) {
	refuse := errors.New("the profile bad is refused")
	s := p.Open(t, config.Options{Profiles: func(_ string, yaml []byte) error {
		if strings.Contains(string(yaml), "bad:") {
			return refuse
		}
		return nil
	}})
	defer s.Close()
	add := func(name string) error {
		_, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
			{Verb: config.Add, Kind: config.KindProfile, Name: name, Values: config.Values{"yaml": "from: echo"}},
		}})
		return err
	}
	if err := add("good"); err != nil {
		t.Error(err)
	}
	if err := add("bad"); err == nil || !strings.Contains(err.Error(), refuse.Error()) {
		t.Errorf("a profile that does not pass the check: %v", err)
	}
	if content := load(t, s).Content(); !slices.Equal(content.Names(config.KindProfile), []string{"good"}) {
		t.Errorf("profiles: %v", content.Profiles)
	}
}

func testNoChange(t *testing.T, p Place) {
	s := p.open(t)
	first := replace(t, s, Small())
	n := len(history(t, s, 10))
	again := apply(t, s, config.Change{Mutations: set("gpu-1", config.Values{"connections": "32", "labels.zone": "a"})})
	if again.Version() != first.Version() || len(history(t, s, 10)) != n {
		t.Errorf("a change that changes nothing made %s of %s, and the history is %v", again.Version(), first.Version(), history(t, s, 10))
	}
}

func testConflict(t *testing.T, p Place) {
	s := p.open(t)
	other := p.other(t, s)
	seen := replace(t, s, Small())
	apply(t, other, config.Change{Who: "alice", Why: "more load", Mutations: set("gpu-2", config.Values{"connections": "48"})})
	bobs := config.Change{Who: "bob", Expect: seen.Version(), Mutations: set("gpu-2", config.Values{"connections": "64"})}
	_, err := s.Apply(t.Context(), bobs)
	var conflict *config.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("a change for an older version: %v", err)
	}
	now := load(t, s)
	if conflict.Expected != seen.Version() || conflict.Current != now.Version() || len(conflict.Since) != 1 || conflict.Since[0].Who != "alice" {
		t.Errorf("the conflict is %+v", conflict)
	}
	if says := "alice: backend gpu-2: connections 32 -> 48"; !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %q and should say %q", err, says)
	}
	if b, _ := now.Backend("gpu-2"); b.Connections != 48 {
		t.Errorf("connections are %d: the change was made", b.Connections)
	}
	bobs.Expect = now.Version()
	if b, _ := apply(t, s, bobs).Backend("gpu-2"); b.Connections != 64 {
		t.Errorf("connections are %d after the change was made again", b.Connections)
	}
	bobs.Expect = "nonsense"
	if _, err := s.Apply(t.Context(), bobs); !errors.As(err, &conflict) {
		t.Errorf("a change for no version at all: %v", err)
	}
}

// testWriters lets several writers change the same version at once: one must win each time.
func testWriters(t *testing.T, p Place) {
	first := p.open(t)
	replace(t, first, Small())
	stores := []config.Store{first, p.other(t, first), p.other(t, first)}
	for round := range 5 {
		seen := load(t, first).Version()
		var wins, conflicts int
		var mu sync.Mutex
		var writers sync.WaitGroup
		for i := range 2 * len(stores) {
			writers.Go(func() {
				_, err := stores[i%len(stores)].Apply(t.Context(), config.Change{
					Who: "writer", Expect: seen, Mutations: set("gpu-1", config.Values{"connections": strconv.Itoa(100 + 10*round + i)}),
				})
				mu.Lock()
				defer mu.Unlock()
				var conflict *config.ConflictError
				switch {
				case err == nil:
					wins++
				case errors.As(err, &conflict):
					conflicts++
				default:
					t.Errorf("writing: %v", err)
				}
			})
		}
		writers.Wait()
		if wins != 1 || conflicts != 2*len(stores)-1 {
			t.Fatalf("round %d: %d writers won and %d had a conflict", round, wins, conflicts)
		}
	}
}

// testLostUpdate lets writers add labels of their own, each trying again after a conflict.
func testLostUpdate(t *testing.T, p Place) {
	first := p.open(t)
	replace(t, first, Small())
	stores := []config.Store{first, p.other(t, first)}
	const each = 6
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			s := stores[i%len(stores)]
			for n := 0; n < each; {
				now, err := s.Load(t.Context())
				if err != nil {
					t.Errorf("loading: %v", err)
					return
				}
				content := now.Content() // the whole content, so that a lost update would show
				b := content.Backends["gpu-1"]
				b.Labels[label(i, n)] = "x"
				content.Backends["gpu-1"] = b
				_, err = s.Apply(t.Context(), config.Change{Who: "writer", Expect: now.Version(), Content: &content})
				var conflict *config.ConflictError
				switch {
				case err == nil:
					n++
				case !errors.As(err, &conflict):
					t.Errorf("writing: %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
	b, _ := load(t, first).Backend("gpu-1")
	if len(b.Labels) != 1+4*each {
		t.Errorf("%d labels are there, of %d that were written", len(b.Labels)-1, 4*each)
	}
}

func label(writer, n int) string { return string(rune('a'+writer)) + string(rune('a'+n)) }

func testSecrets(t *testing.T, p Place) {
	s := p.open(t)
	replace(t, s, Small())
	const secret = "s3cret"
	_, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: set("gpu-1", config.Values{"headers.Authorization": "Bearer " + secret})})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a secret in the configuration: %v", err)
	}
	for _, parameter := range []string{"token", "api_key", "api%5fkey", "xi-api-key", "sig", "PASSWORD"} {
		_, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: set("gpu-1", config.Values{"url": "ws://10.0.0.0/?keywords=a&" + parameter + "=" + secret})})
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "use "+parameter+"=env:NAME or "+parameter+"=file:/path") {
			t.Errorf("a secret in the parameter %s: %v", parameter, err)
		}
	}
	apply(t, s, config.Change{Mutations: set("gpu-1", config.Values{
		"headers.X-Tenant": secret, "headers.Authorization": "Bearer env:TOKEN", "url": "ws://10.0.0.0/?keywords=a&token=env:TOKEN",
	})})
	seen := load(t, s)
	apply(t, s, config.Change{Mutations: set("gpu-1", config.Values{"headers.X-Tenant": secret + "2"})})
	apply(t, s, config.Change{Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindBackend, Name: "gpu-1"}}})
	for _, r := range history(t, s, 10) {
		if strings.Contains(r.String(), secret) {
			t.Errorf("the history shows a secret: %v", r)
		}
	}
	_, err = s.Apply(t.Context(), config.Change{Who: "x", Expect: seen.Version(), Mutations: set("gpu-2", config.Values{"warm": "3"})})
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("the conflict: %v", err)
	}
	content, err := s.At(t.Context(), seen.Version())
	if err != nil {
		t.Fatal(err)
	}
	if got := content.Backends["gpu-1"].Headers["X-Tenant"]; got != secret {
		t.Errorf("the header is %q in an old version: it cannot be brought back", got)
	}
}
