package peers

import (
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// A problem that several proxies see is one, with the names of those that see it, and as old as the first has seen it; what hurts clients comes
// first. A proxy that could not be asked is named once.
func TestMergeProblems(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	slow := api.Problem{Kind: "backend-slow", Level: api.LevelWarning, Hurts: api.HurtsClients, What: "backend gpu-1", Text: "at a", Since: noon}
	draining := api.Problem{Kind: "proxy-draining", Level: api.LevelWarning, Hurts: api.HurtsOperator, What: "proxy", Since: noon}
	unseen := api.Problem{Kind: "fleet-proxy", Level: api.LevelWarning, Hurts: api.HurtsOperator, What: "proxy proxy-c", Since: noon}
	own := &api.Stats{Problems: []api.Problem{draining, unseen}}
	other := &api.Stats{Problems: []api.Problem{slow, unseen}}
	third := &api.Stats{Problems: []api.Problem{slow}}
	third.Problems[0].Since, third.Problems[0].Level, third.Problems[0].Text = noon.Add(-time.Minute), api.LevelFailure, "at d"
	all := begin(proxyStats{"proxy-a", own})
	join(all, proxyStats{"proxy-b", other})
	join(all, proxyStats{"proxy-d", third})
	diagnosis.Sort(all.Problems)
	all.Problems = withMissing(all.Problems, &api.Fleet{Missing: []api.MissingProxy{{ID: "c", Name: "proxy-c", Why: "not seen"}}}, noon)
	var got []string
	for _, p := range all.Problems {
		got = append(got, p.Kind)
	}
	if !slices.Equal(got, []string{"backend-slow", "fleet-proxy-missing", "proxy-draining"}) {
		t.Fatal(got)
	}
	if p := all.Problems[0]; !slices.Equal(p.Proxies, []string{"proxy-b", "proxy-d"}) || !p.Since.Equal(noon.Add(-time.Minute)) || p.Level != api.LevelFailure || p.Text != "at a" {
		t.Errorf("%+v", p)
	}
	if own.Problems[0].Proxies != nil || other.Problems[0].Proxies != nil {
		t.Error("a part was changed")
	}
}

// A problem that only an operator notices at one proxy, and clients at another, hurts clients.
func TestMergeHurts(t *testing.T) {
	paused := api.Problem{Kind: "service-paused", Level: api.LevelWarning, Hurts: api.HurtsOperator, What: "service stt", Text: "clients wait until it is resumed"}
	waits := paused
	waits.Hurts, waits.Text, waits.Cure = api.HurtsClients, "20 clients wait", "wsbouncer service resume stt"
	for name, order := range map[string][2]api.Problem{"the worse last": {paused, waits}, "the worse first": {waits, paused}} {
		all := addProblems(addProblems(nil, order[:1], "proxy-a"), order[1:], "proxy-b")
		if len(all) != 1 || all[0].Hurts != api.HurtsClients || all[0].Text != waits.Text || all[0].Cure != waits.Cure {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
