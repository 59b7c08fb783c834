package diagnosis

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

var clientScenes = map[string]scene{
	"limits": {func(f *Facts) {
		for i, name := range []string{"", "acme", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"} {
			scope := []string{"process", "tenant", "client", "client", "client", "client", "client"}[i]
			f.Recent.Limits = append(f.Recent.Limits, api.LimitReached{LimitTotal: api.LimitTotal{Limit: "session-limit", Scope: scope, Count: uint64(7 - i)}, Name: name, Since: since})
		}
	}, "limit-reached proxy: it has reached its session-limit 7 times since this began (12:00)\nlimit-reached tenant acme: it has reached its session-limit 6 times since this began (12:00)\n" +
		"limit-reached client 192.0.2.1: it has reached its session-limit 5 times since this began (12:00)\nlimit-reached client 192.0.2.2: it has reached its session-limit 4 times since this began (12:00)\n" +
		"limit-reached client 192.0.2.3: it has reached its session-limit 3 times since this began (12:00)\nlimit-reached clients: 2 other limits are reached, too"},
	"two limits of one tenant, which explain refusals": {func(f *Facts) {
		for i, limit := range []string{"session-limit", "session-rate"} {
			f.Recent.Limits = append(f.Recent.Limits, api.LimitReached{LimitTotal: api.LimitTotal{Limit: limit, Scope: "tenant", Count: uint64(5 - i)}, Name: "acme", Since: since})
		}
		f.Recent.Refused = map[int]uint64{429: 100}
	}, "limit-reached tenant acme: it has reached its session-limit 5 times since this began, and its session-rate 4 times (12:00)"},
	"refusals": {
		func(f *Facts) { f.Recent.Began, f.Recent.Refused = 100, map[int]uint64{503: 5, 401: 20, 404: 2} },
		"refusals proxy: clients were refused in the last minute: 20 with 401 (no valid credential), 5 with 503 (no connection came free)",
	},
	"refusals of a queue that was full a moment ago": {func(f *Facts) {
		f.Recent.Refused, f.Recent.Held = map[int]uint64{503: 50}, []Kind{ServiceQueueFull}
	}, ""},
	"a few strangers":             {func(f *Facts) { f.Recent.Began, f.Recent.Refused = 1000, map[int]uint64{404: 30, 400: 9, 503: 2} }, ""},
	"failing":                     {func(f *Facts) { f.Recent.Began, f.Recent.Failed = 100, 20 }, "sessions-failing proxy: 20 sessions failed in the last minute, 100 began"},
	"a few failures":              {func(f *Facts) { f.Recent.Began, f.Recent.Failed = 1000, 20 }, ""},
	"failures that are explained": {func(f *Facts) { f.Recent.Failed = 20; opens("connection refused")(f) }, "backend-unreachable backend gpu-2: circuit open: connection refused (12:00)"},
}

// What a client's token says is no part of a command that operators are told to run.
func TestNamesInCures(t *testing.T) {
	for name, want := range map[string]string{"acme": "wsbouncer tenant show acme", "acme; reboot #": "", "Acme Corp": ""} {
		f := well()
		f.Recent.Limits = []api.LimitReached{{LimitTotal: api.LimitTotal{Limit: "session-limit", Scope: "tenant", Count: 1}, Name: name, Since: since}}
		if all := Find(f); len(all) != 1 || all[0].Cure != want {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// While a server that is out of service costs clients their sessions, clients are not served.
func TestFailuresHurtClients(t *testing.T) {
	for failed, want := range map[uint64]string{0: api.HurtsSoon, 20: api.HurtsClients} {
		f := well()
		opens("connection refused")(f)
		f.Recent.Failed = failed
		if all := Find(f); len(all) != 1 || all[0].Hurts != want {
			t.Errorf("%d failed: %+v", failed, all)
		}
	}
}
