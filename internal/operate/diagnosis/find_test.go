package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// since is when something began, and noon a minute later is the time of all observations.
var (
	since = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	noon  = since.Add(time.Minute)
)

// well returns the facts of a proxy that has no trouble.
func well() *Facts {
	backend := func(name string) api.Backend {
		return api.Backend{
			Name: name, Service: "stt", Health: api.Health{Reachable: true, Circuit: "closed", Probe: "off"},
			Pool: api.Pool{State: "enabled", Usable: true, Cap: 32, Ceiling: 32, Limit: 32, Weight: 1, Leased: 3},
		}
	}
	return &Facts{
		Now: noon,
		Stats: &api.Stats{
			Services:      []api.Service{{Name: "stt", Queue: api.Queue{Limit: 10}}},
			Backends:      []api.Backend{backend("gpu-1"), backend("gpu-2"), backend("gpu-3")},
			Configuration: api.Configuration{State: "current"},
		},
	}
}

// scene is what one change of these facts leads to: problems as "kind what: text", with the time of since if it is known.
type scene struct {
	change func(f *Facts)
	want   string
}

// unreachable makes a backend one that cannot be dialed, for a reason.
func unreachable(b *api.Backend, reason string) {
	b.Usable, b.Reachable, b.Reason, b.Since = false, false, reason, since
}

// awaited are the kinds whose rules other facts are needed for.
var awaited = []Kind{BackendHung, FleetProxyMissing}

// Each kind of problem is found in a scene, and nothing else is.
func TestFind(t *testing.T) {
	seen := make(map[Kind]bool)
	for _, group := range []map[string]scene{processScenes, serviceScenes, backendScenes, clientScenes, configurationScenes, fleetScenes, slownessScenes} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			c, f := group[name], well()
			c.change(f)
			var lines []string
			found := Find(f)
			for i, p := range found {
				if slices.ContainsFunc(found[:i], func(o api.Problem) bool { return o.Same(&p) }) {
					t.Errorf("%s: %s of %s twice", name, p.Kind, p.What)
				}
				if p.Level == api.LevelFailure && p.Hurts == api.HurtsOperator {
					t.Errorf("%s: %s is a failure, and hurts no client", name, p.Kind)
				}
				seen[Kind(p.Kind)] = true
				line := fmt.Sprintf("%s %s: %s", p.Kind, p.What, p.Text)
				if !p.Since.IsZero() {
					line += p.Since.Format(" (15:04)")
				}
				lines = append(lines, line)
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
			}
		}
	}
	for _, kind := range Kinds() {
		if seen[kind] == slices.Contains(awaited, kind) {
			t.Errorf("kind %s: found in a scene: %v", kind, seen[kind])
		}
	}
}

// What hurts clients comes first, then what may hurt them, then what concerns operators only; failures before warnings.
func TestOrder(t *testing.T) {
	f := well()
	s := f.Stats
	s.Services[0].Queue.Waiting, s.Services[0].Queue.OldestSeconds = 2, 4
	s.Backends[0].State = "draining"
	unreachable(&s.Backends[1], "connection refused")
	s.Backends[2].Ceiling, s.Backends[2].FullAt = 20, 20
	s.Configuration.State = "stale"
	var kinds []string
	for _, p := range Find(f) {
		kinds = append(kinds, p.Kind)
	}
	if got, want := strings.Join(kinds, " "), "service-waiting backend-unreachable backend-full backend-draining configuration-stale"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// Every kind is named once, and its name is fit for a label, a URL and a heading.
func TestKinds(t *testing.T) {
	seen := make(map[Kind]bool)
	for i, n := range natures {
		if seen[n.kind] || strings.Trim(string(n.kind), "abcdefghijklmnopqrstuvwxyz-") != "" || rankOf(string(n.kind)) != i {
			t.Errorf("kind %q", n.kind)
		}
		seen[n.kind] = true
		if n.level == api.LevelFailure && n.hurts == api.HurtsOperator {
			t.Errorf("%s is a failure, and hurts no client", n.kind)
		}
	}
}
