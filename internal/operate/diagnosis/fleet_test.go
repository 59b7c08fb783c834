package diagnosis

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// inFleet has a proxy be a part of a fleet.
func inFleet(fleet api.Fleet) func(*Facts) {
	return func(f *Facts) { f.Stats.Fleet = &fleet }
}

var fleetScenes = map[string]scene{
	"caps are not shared": {
		inFleet(api.Fleet{Mode: api.FleetWhole, Problem: "no tables", Advice: "run 'wsbouncer migrate'"}),
		"fleet-unshared fleet: caps are not shared, so servers may see more connections than their caps: no tables; run 'wsbouncer migrate'",
	},
	"no ledger yet": {inFleet(api.Fleet{Mode: api.FleetWaiting, Problem: "refused"}), "fleet-waiting fleet: the ledger has not answered yet, so this proxy has no places: refused"},
	"no ledger now": {
		inFleet(api.Fleet{Mode: api.FleetShare, Problem: "refused", SinceSeconds: 12}),
		"fleet-unreachable fleet: the ledger has not been reached for 12s, so no proxy gets more places: refused (12:00)",
	},
	"frozen": {inFleet(api.Fleet{Mode: api.FleetShare, Frozen: true, FrozenSeconds: 2, FrozenWhy: "proxy-b"}), "fleet-frozen fleet: frozen for 2.0s: proxy-b (12:00)"},
	"a proxy that is not seen": {inFleet(api.Fleet{
		Mode: api.FleetShare, Proxies: []api.Proxy{{ID: "b", Name: "proxy-b", SeenSeconds: 12, Places: 12, Problem: "not seen for 12 s"}},
	}), "fleet-proxy proxy proxy-b: not seen for 12 s: it holds 12 places"},
	"two processes of one proxy that are not seen": {inFleet(api.Fleet{Mode: api.FleetShare, Proxies: []api.Proxy{
		{ID: "b", Name: "proxy-b", SeenSeconds: 40, Places: 12, Problem: "not seen for 40 s"},
		{ID: "c", Name: "proxy-b", SeenSeconds: 70, Places: 4, Problem: "not seen for 70 s"},
	}}), "fleet-proxy proxy proxy-b: not seen for 40 s: it holds 12 places; another one: not seen for 70 s: it holds 4 places"},
	"two proxies with one name": {inFleet(api.Fleet{Mode: api.FleetShare, Proxies: []api.Proxy{
		{ID: "b", Name: "proxy-b", SeenSeconds: 0.5, Places: 12, Problem: "another proxy has the same name"},
		{ID: "c", Name: "proxy-b", SeenSeconds: 0.5, Places: 4, Problem: "another proxy has the same name"},
	}}), "fleet-proxy proxy proxy-b: another proxy has the same name"},
	"no ledger now, and no other proxy": {
		inFleet(api.Fleet{Mode: api.FleetAlone, Problem: "refused", SinceSeconds: 12}),
		"fleet-unreachable fleet: the ledger has not been reached for 12s, and this proxy, which is alone, keeps all places: refused (12:00)",
	},
	"the database of both is away": {
		func(f *Facts) {
			inFleet(api.Fleet{Mode: api.FleetShare, Ledger: "postgres://db", Problem: "refused", SinceSeconds: 12})(f)
			f.Stats.Configuration = api.Configuration{State: "stale", Source: "postgres://db", Version: "7", Reason: "EOF", Since: since}
		},
		"fleet-unreachable fleet: the ledger has not been reached for 12s, so no proxy gets more places: refused. Version 7 of the configuration stays in force, and changes wait (12:00)",
	},
	"the database of both is away, and there is no other proxy": {
		func(f *Facts) {
			inFleet(api.Fleet{Mode: api.FleetAlone, Ledger: "postgres://db", Problem: "refused", SinceSeconds: 12})(f)
			f.Stats.Configuration = api.Configuration{State: "stale", Source: "postgres://db", Version: "7", Reason: "EOF", Since: since}
		},
		"configuration-stale configuration: stale: EOF. What was read before stays in force, and changes are taken once the database can be read and is valid (12:00)",
	},
	"two databases are away": {
		func(f *Facts) {
			inFleet(api.Fleet{Mode: api.FleetShare, Ledger: "postgres://db2", Problem: "refused", SinceSeconds: 12})(f)
			f.Stats.Configuration = api.Configuration{State: "stale", Source: "postgres://db", Reason: "EOF", Since: since}
		},
		"fleet-unreachable fleet: the ledger has not been reached for 12s, so no proxy gets more places: refused (12:00)\n" +
			"configuration-stale configuration: stale: EOF. What was read before stays in force, and changes are taken once the database can be read and is valid (12:00)",
	},
	"off":   {inFleet(api.Fleet{Mode: api.FleetOff}), ""},
	"alone": {inFleet(api.Fleet{Mode: api.FleetAlone}), ""},
}

// A proxy that could not be asked is a failure, unless it was seen a moment ago.
func TestOfMissing(t *testing.T) {
	f := api.Fleet{
		Mode:    api.FleetShare,
		Proxies: []api.Proxy{{ID: "b", Name: "proxy-b", SeenSeconds: 60}, {ID: "c", Name: "proxy-c", SeenSeconds: 0.5}},
		Missing: []api.MissingProxy{{ID: "b", Name: "proxy-b", Why: "not seen for 60 s"}, {ID: "c", Name: "proxy-c", Why: "connection refused"}},
	}
	all := OfMissing(&f, noon)
	if len(all) != 2 || all[0].Level != api.LevelFailure || !all[0].Since.Equal(since) || all[0].Hurts != api.HurtsSoon || all[1].Level != api.LevelWarning || all[1].Hurts != api.HurtsOperator || all[1].What != "proxy proxy-c" || all[1].Kind != string(FleetProxyMissing) {
		t.Errorf("%+v", all)
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
