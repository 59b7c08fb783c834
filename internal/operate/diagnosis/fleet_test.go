package diagnosis

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// What is wrong in a fleet is found, and each proxy is named once.
func TestFleet(t *testing.T) {
	for _, k := range []struct {
		fleet api.Fleet
		level Level
		what  string
		text  string
	}{
		{api.Fleet{Mode: api.FleetWhole, Problem: "no tables", Advice: "run 'wsbouncer migrate'"}, Failure, "fleet", "caps are not shared, so servers may see more connections than their caps: no tables; run 'wsbouncer migrate'"},
		{api.Fleet{Mode: api.FleetWaiting, Problem: "refused"}, Failure, "fleet", "the ledger has not answered yet, so this proxy has no places: refused"},
		{api.Fleet{Mode: api.FleetShare, Problem: "refused", SinceSeconds: 12}, Failure, "fleet", "the ledger has not been reached for 12s, so no proxy gets more places: refused"},
		{api.Fleet{Mode: api.FleetShare, Frozen: true, FrozenSeconds: 2, FrozenWhy: "proxy-b"}, Warning, "fleet", "frozen for 2.0s: proxy-b"},
		{api.Fleet{Mode: api.FleetShare, Frozen: true, FrozenSeconds: 31, FrozenWhy: "proxy-b"}, Failure, "fleet", "frozen for 31s: proxy-b"},
		{
			api.Fleet{
				Mode:    api.FleetShare,
				Proxies: []api.Proxy{{ID: "b", Name: "proxy-b", SeenSeconds: 12, Places: 12, Problem: "not seen for 12 s"}},
			}, Warning, "proxy proxy-b", "not seen for 12 s: it holds 12 places",
		},
		{
			api.Fleet{
				Mode: api.FleetShare,
				Proxies: []api.Proxy{
					{ID: "b", Name: "proxy-b", SeenSeconds: 0.5, Places: 12, Problem: "another proxy has the same name"},
					{ID: "c", Name: "proxy-b", SeenSeconds: 0.5, Places: 4, Problem: "another proxy has the same name"},
				},
			}, Warning, "proxy proxy-b", "another proxy has the same name",
		},
		{
			api.Fleet{
				Mode:    api.FleetShare,
				Proxies: []api.Proxy{{ID: "b", Name: "proxy-b", SeenSeconds: 12, Problem: "not seen for 12 s"}},
				Missing: []api.MissingProxy{{ID: "b", Name: "proxy-b", Why: "not seen for 12 s: what it does is not known"}},
			}, Failure, "proxy proxy-b", "not seen for 12 s: what it does is not known",
		},
		{
			api.Fleet{
				Mode:    api.FleetShare,
				Proxies: []api.Proxy{{ID: "b", Name: "proxy-b", SeenSeconds: 0.5, Problem: "connection refused"}},
				Missing: []api.MissingProxy{{ID: "b", Name: "proxy-b", Why: "connection refused: its sessions are not known"}},
			}, Warning, "proxy proxy-b", "connection refused: its sessions are not known",
		},
	} {
		found := Find(&api.Stats{Fleet: &k.fleet}, nil)
		if len(found) != 1 || found[0].Level != k.level || found[0].What != k.what || found[0].Text != k.text {
			t.Errorf("%+v:\ngot  %+v\nwant %s: %s", k.fleet, found, k.what, k.text)
		}
	}
	for _, f := range []*api.Fleet{nil, {Mode: api.FleetOff}, {Mode: api.FleetAlone}} {
		if found := Find(&api.Stats{Fleet: f}, nil); len(found) != 0 {
			t.Errorf("%+v: %+v", f, found)
		}
	}
}

// Of a server whose places many proxies share, those that have most are named, and those that have none are not.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		parts []api.BackendPart
		want  string
	}{
		{[]api.BackendPart{{Proxy: "a", Limit: 1}, {Proxy: "b"}, {Proxy: "c", Limit: 9}, {Proxy: "d"}}, "10 of 16 granted: 9 to c, 1 to a"},
		{[]api.BackendPart{{Proxy: "a"}, {Proxy: "b", Limit: 1}, {Proxy: "c", Limit: 2}, {Proxy: "d", Limit: 3}, {Proxy: "e", Limit: 3}, {Proxy: "f", Limit: 1}}, "10 of 16 granted: 3 to d, 3 to e, 2 to c, 2 to 2 more"},
		{[]api.BackendPart{{Proxy: "a"}, {Proxy: "b"}}, "10 of 16 granted"},
	} {
		if got := Places(&api.Backend{Proxies: c.parts, Places: &api.Places{Granted: 10, Cap: 16}}); got != c.want {
			t.Errorf("got %q; want %q", got, c.want)
		}
	}
}
