package diagnosis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// waits has clients wait in the queue of the first service.
func waits(f *Facts, clients int, seconds float64) {
	f.Stats.Services[0].Queue.Waiting, f.Stats.Services[0].Queue.OldestSeconds = clients, seconds
}

var serviceScenes = map[string]scene{
	"waiting": {func(f *Facts) { waits(f, 3, 4.25) }, "service-waiting service stt: 3 clients wait, the first for 4.2s"},
	"a spike": {func(f *Facts) { waits(f, 3, 0.05) }, ""},
	"full":    {func(f *Facts) { waits(f, 10, 0.5) }, "service-queue-full service stt: its queue is full: 10 clients wait, the first for 500ms"},
	"full a moment ago": {func(f *Facts) {
		waits(f, 9, 0.5)
		f.Recent.Full = map[string]uint64{"stt": 7}
	}, "service-queue-full service stt: its queue is full: 9 clients wait, the first for 500ms"},
	"nearly full":    {func(f *Facts) { f.Stats.Services[0].Utilisation = 0.94 }, "service-nearly-full service stt: 94 % of its connections are in use or wanted"},
	"paused":         {func(f *Facts) { f.Stats.Services[0].Paused = true }, "service-paused service stt: paused: clients wait until it is resumed"},
	"paused waiting": {func(f *Facts) { waits(f, 1, 0); f.Stats.Services[0].Paused = true }, "service-paused service stt: paused: 1 client waits, the first for 0s"},
	"no backends":    {func(f *Facts) { f.Stats.Backends = nil }, "service-down service stt: it has no backends"},
	"full by one tenant": {func(f *Facts) {
		waits(f, 10, 3)
		f.Stats.Tenants = []api.Tenant{
			{Name: "acme", Services: []api.TenantService{{Service: "stt", Sessions: 4, Waiting: 9}}},
			{Name: "beta", Services: []api.TenantService{{Service: "stt", Sessions: 5, Waiting: 1}}},
		}
		f.Recent.Began, f.Recent.Refused = 9, map[int]uint64{503: 40}
	}, "tenant-fills-queue tenant acme at stt: it has 9 of the 10 clients in the full queue: 10 clients wait, the first for 3.0s"},
	"two services full by one tenant": {func(f *Facts) {
		f.Stats.Services = append(f.Stats.Services, api.Service{Name: "mt", Queue: api.Queue{Limit: 4, Waiting: 4, OldestSeconds: 5}})
		f.Stats.Backends = append(f.Stats.Backends, f.Stats.Backends[0])
		f.Stats.Backends[3].Name, f.Stats.Backends[3].Service = "mt-1", "mt"
		waits(f, 10, 3)
		f.Stats.Tenants = []api.Tenant{
			{Name: "acme", Services: []api.TenantService{{Service: "stt", Waiting: 9}, {Service: "mt", Waiting: 4}}},
			{Name: "beta", Services: []api.TenantService{{Service: "stt", Sessions: 5, Waiting: 1}, {Service: "mt", Sessions: 1}}},
		}
	}, "tenant-fills-queue tenant acme at stt: it has 9 of the 10 clients in the full queue: 10 clients wait, the first for 3.0s\n" +
		"tenant-fills-queue tenant acme at mt: it has 4 of the 4 clients in the full queue: 4 clients wait, the first for 5.0s"},
	"full by all tenants": {func(f *Facts) {
		waits(f, 10, 3)
		f.Stats.Tenants = []api.Tenant{
			{Name: "acme", Services: []api.TenantService{{Service: "stt", Waiting: 6}}}, {Name: "beta", Services: []api.TenantService{{Service: "stt", Waiting: 4}}},
		}
	}, "service-queue-full service stt: its queue is full: 10 clients wait, the first for 3.0s"},
	"all down": {func(f *Facts) {
		for i := range f.Stats.Backends {
			unreachable(&f.Stats.Backends[i], "connection refused")
		}
		f.Stats.Backends[2].State = "disabled"
		waits(f, 2, 1)
		f.Recent.Failed, f.Recent.Refused = 20, map[int]uint64{503: 20}
	}, "service-down service stt: none of its backends can take sessions: gpu-1, gpu-2: unreachable: connection refused; gpu-3: disabled: 3 sessions left; " +
		"2 clients wait, the first for 1.0s. They get 503 when queue-timeout is over (12:00)"},
	"one drains, and the others are down": {func(f *Facts) { // a healthy backend stays usable while it drains
		f.Stats.Backends[0].State = "draining"
		unreachable(&f.Stats.Backends[1], "connection refused")
		unreachable(&f.Stats.Backends[2], "connection refused")
	}, "service-down service stt: none of its backends can take sessions: gpu-1: draining: 3 sessions left; gpu-2, gpu-3: unreachable: connection refused (12:00)"},
	"all drain": {func(f *Facts) {
		for i := range f.Stats.Backends {
			f.Stats.Backends[i].State = "draining"
		}
		waits(f, 2, 1)
	}, "service-down service stt: none of its backends can take sessions: gpu-1, gpu-2, gpu-3: draining: 3 sessions left; " +
		"2 clients wait, the first for 1.0s. They get 503 when queue-timeout is over"},
	"one drains, and the others have no weight": {func(f *Facts) {
		f.Stats.Backends[0].State, f.Stats.Backends[1].Weight, f.Stats.Backends[2].Weight = "draining", 0, 0
	}, "service-down service stt: none of its backends can take sessions: gpu-1: draining: 3 sessions left; gpu-2, gpu-3: its weight is 0"},
	"half of the enabled ones are down": {func(f *Facts) {
		f.Stats.Backends = append(f.Stats.Backends, f.Stats.Backends[0])
		f.Stats.Backends[3].Name, f.Stats.Backends[3].State = "gpu-4", "disabled"
		unreachable(&f.Stats.Backends[0], "connection refused")
		unreachable(&f.Stats.Backends[1], "connection refused")
	}, "service-degraded service stt: 2 of its 3 backends take no sessions: gpu-1, gpu-2: unreachable: connection refused (12:00)\n" +
		"backend-disabled backend gpu-4: disabled: 3 sessions left"},
	"half down": {func(f *Facts) {
		unreachable(&f.Stats.Backends[0], "connection refused")
		unreachable(&f.Stats.Backends[2], "connection refused")
	}, "service-degraded service stt: 2 of its 3 backends take no sessions: gpu-1, gpu-3: unreachable: connection refused (12:00)"},
	"one down": {func(f *Facts) { unreachable(&f.Stats.Backends[0], "connection refused") }, "backend-unreachable backend gpu-1: unreachable: connection refused (12:00)"},
	"many down": {func(f *Facts) {
		for i := range 5 {
			b := f.Stats.Backends[0]
			b.Name = fmt.Sprint("gpu-", i+4)
			unreachable(&b, "no route to host")
			f.Stats.Backends = append(f.Stats.Backends, b)
		}
	}, "service-degraded service stt: 5 of its 8 backends take no sessions: gpu-4, gpu-5, gpu-6, 2 more: unreachable: no route to host (12:00)"},
	"all places of a proxy that is alone are in use": {func(f *Facts) {
		f.Stats.Fleet = &api.Fleet{Mode: api.FleetAlone}
		waits(f, 2, 1.5)
		for i := range f.Stats.Backends {
			f.Stats.Backends[i].Limit, f.Stats.Backends[i].Places = 3, &api.Places{Grant: 3, Granted: 3, Cap: 3}
		}
	}, "service-waiting service stt: 2 clients wait, the first for 1.5s"},
	"all places that were granted are in use": {func(f *Facts) {
		f.Stats.Fleet = &api.Fleet{Mode: api.FleetShare}
		waits(f, 2, 1.5)
		for i := range f.Stats.Backends {
			f.Stats.Backends[i].Limit = 3
			f.Stats.Backends[i].Places = &api.Places{Grant: 3, Granted: 32, Cap: 32, Others: []api.PlaceHolder{{Name: "proxy-b", Places: 29}}}
		}
	}, "service-waiting service stt: 2 clients wait, the first for 1.5s; gpu-1: 3 of 32 granted to this proxy, 29 to proxy-b; " +
		"gpu-2: 3 of 32 granted to this proxy, 29 to proxy-b; gpu-3: 3 of 32 granted to this proxy, 29 to proxy-b"},
	"clients wait beside places that were granted": {func(f *Facts) {
		waits(f, 2, 1.5)
		for i := range f.Stats.Backends {
			f.Stats.Backends[i].Limit, f.Stats.Backends[i].Places = 4, &api.Places{Grant: 4, Granted: 32, Cap: 32}
		}
	}, "service-waiting service stt: 2 clients wait, the first for 1.5s"},
	"failover in order": {func(f *Facts) {
		f.Stats.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Moved: 7, NotMoved: 1, Failed: since}
	}, ""},
	"failover off, and a stall-timeout": {func(f *Facts) { f.Stats.Services[0].Failover = &api.ServiceFailover{Mode: "off", Verdict: "never"} }, ""},
	"failover without effect": {func(f *Facts) {
		f.Stats.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "never", Why: "its conversations have a state"}
	}, "failover-useless service stt: failover: replay has no effect: its conversations have a state"},
	"failover that failed": {func(f *Facts) {
		f.Stats.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Failed: noon.Add(-quiet / 2)}
	}, "failover-failed service stt: no other backend could continue sessions whose backend failed: see how they ended (12:00)"},
}

// A problem of a service names the kinds of its causes, and has their cure.
func TestCauses(t *testing.T) {
	f := well()
	unreachable(&f.Stats.Backends[0], "server answered 401 Unauthorized instead of upgrading")
	unreachable(&f.Stats.Backends[1], "server answered 401 Unauthorized instead of upgrading")
	unreachable(&f.Stats.Backends[2], "connection refused")
	all := Find(f)
	if len(all) != 1 || !slices.Equal(all[0].Causes, []string{"backend-refusing", "backend-unreachable"}) || all[0].Cure != "wsbouncer backend set gpu-1 --header NAME=VALUE; wsbouncer backend set gpu-2 --header NAME=VALUE; wsbouncer backend recycle gpu-3" || !all[0].Since.Equal(since) {
		t.Errorf("%+v", all)
	}
}

// Where nothing is wrong with the backends but their weight, that is what to change.
func TestCureOfWeights(t *testing.T) {
	f := well()
	for i := range f.Stats.Backends {
		f.Stats.Backends[i].Weight, f.Stats.Backends[i].DiscoveredFrom = 0, "gpus"
	}
	if all := Find(f); len(all) != 1 || all[0].Kind != string(ServiceDown) || all[0].Cure != "wsbouncer backend set gpus --weight 1" {
		t.Errorf("%+v", all)
	}
}

// The cure of a service's problem is for all backends that cause it, in one command where one takes several.
func TestCureOfMany(t *testing.T) {
	of := func(cures ...string) (causes []api.Problem) {
		for _, cure := range cures {
			causes = append(causes, api.Problem{Cure: cure})
		}
		return causes
	}
	const recycle, show = "wsbouncer backend recycle ", "wsbouncer backend show "
	for want, causes := range map[string][]api.Problem{
		"": of("", ""),
		recycle + "gpu-1 gpu-2; " + show + "gpu-3":        of(recycle+"gpu-1", show+"gpu-3", recycle+"gpu-2", recycle+"gpu-1"),
		"wsbouncer backend ls --output wide":              of(show+"a", show+"b", show+"c", show+"d"),
		recycle + "a b c d e f g h":                       of(recycle+"a", recycle+"b", recycle+"c", recycle+"d", recycle+"e", recycle+"f", recycle+"g", recycle+"h"),
		"wsbouncer backend set gpu-1 --header NAME=VALUE": of("wsbouncer backend set gpu-1 --header NAME=VALUE"),
	} {
		if got := cureOf(causes); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

// A service that has lost half of its backends hurts clients once they have to wait.
func TestDegradedHurts(t *testing.T) {
	for seconds, want := range map[float64]string{0.2: api.HurtsSoon, 1.5: api.HurtsClients} {
		f := well()
		unreachable(&f.Stats.Backends[0], "connection refused")
		unreachable(&f.Stats.Backends[1], "connection refused")
		waits(f, 2, seconds)
		if all := Find(f); len(all) != 1 || all[0].Kind != string(ServiceDegraded) || all[0].Hurts != want {
			t.Errorf("clients wait for %v s: %+v; want hurts %s", seconds, all, want)
		}
	}
}
