package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// well returns the statistics of a proxy that has no trouble.
func well() *api.Stats {
	backend := func(name string) api.Backend {
		return api.Backend{
			Name: name, Service: "stt", Health: api.Health{Reachable: true, Circuit: "closed", Probe: "off"},
			Pool: api.Pool{State: "enabled", Usable: true, Cap: 32, Ceiling: 32, Limit: 32, Weight: 1, Leased: 3},
		}
	}
	return &api.Stats{
		Services:      []api.Service{{Name: "stt", Queue: api.Queue{Limit: 10}}},
		Backends:      []api.Backend{backend("gpu-1"), backend("gpu-2"), backend("gpu-3")},
		Configuration: api.Configuration{State: "current"},
	}
}

func TestFind(t *testing.T) {
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	replies := func(backend string, seconds float64, n int) (all []api.Session) {
		for range n {
			all = append(all, api.Session{Backend: backend, FirstReplySeconds: seconds})
		}
		return all
	}
	for name, c := range map[string]struct {
		change   func(s *api.Stats)
		sessions []api.Session
		want     string
	}{
		"well":            {func(*api.Stats) {}, replies("gpu-1", 0.3, 9), ""},
		"shutting down":   {func(s *api.Stats) { s.Draining = true }, nil, "1 proxy: it shuts down: no new clients are accepted, 0 sessions left"},
		"internal errors": {func(s *api.Stats) { s.InternalErrors = 2 }, nil, "0 proxy: 2 internal errors since its start: please report the stack in its log"},
		"limits": {
			func(s *api.Stats) {
				for i, name := range []string{"", "acme", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"} {
					scope := []string{"process", "tenant", "client", "client", "client", "client", "client"}[i]
					s.Limits.Lately = append(s.Limits.Lately, api.LimitReached{LimitTotal: api.LimitTotal{Limit: "session-limit", Scope: scope, Count: uint64(7 - i)}, Name: name, Since: since})
				}
			}, nil, "1 proxy: it has reached its session-limit 7 times lately (12:00)\n1 tenant acme: it has reached its session-limit 6 times lately (12:00)\n" +
				"1 client 192.0.2.1: it has reached its session-limit 5 times lately (12:00)\n1 client 192.0.2.2: it has reached its session-limit 4 times lately (12:00)\n" +
				"1 client 192.0.2.3: it has reached its session-limit 3 times lately (12:00)\n1 proxy: 2 other limits were reached lately, too",
		},
		"replay memory nearly used up": {
			func(s *api.Stats) { s.Replay = &api.Replay{MemoryBytes: 95 << 20, LimitBytes: 100 << 20} }, nil,
			"0 proxy: replay-memory is nearly used up: 95 MiB of 100 MiB; when it is, sessions end with their backends",
		},
		"replay memory in use": {func(s *api.Stats) { s.Replay = &api.Replay{MemoryBytes: 80 << 20, LimitBytes: 100 << 20} }, nil, ""},
		"failover that works": {
			func(s *api.Stats) {
				s.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Moved: 7, NotMoved: 1}
			}, nil, "",
		},
		"failover off, and a stall-timeout": {
			func(s *api.Stats) { s.Services[0].Failover = &api.ServiceFailover{Mode: "off", Verdict: "never"} }, nil, "",
		},
		"failover without effect": {
			func(s *api.Stats) {
				s.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "never", Why: "its conversations have a state"}
			}, nil,
			"1 service stt: failover: replay has no effect: its conversations have a state",
		},
		"failover that failed": {
			func(s *api.Stats) {
				s.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Failed: since}
			}, nil,
			"0 service stt: no other backend could continue sessions whose backend failed: see how they ended (12:00)",
		},
		"canary fails": {
			func(s *api.Stats) {
				b := &s.Backends[1]
				b.Usable, b.Canary, b.CanaryReason, b.CanarySince = false, "down", "no result within 10s", since
			}, nil,
			"0 backend gpu-2: canary fails: no result within 10s (12:00)",
		},
		"canary doubtful": {
			func(s *api.Stats) {
				b := &s.Backends[1]
				b.Canary, b.CanaryReason, b.CanarySince = "doubtful", "no result within 10s", since
			}, nil,
			"1 backend gpu-2: the canary fails, and has passed on no backend of the service, so it takes none out of service: no result within 10s (12:00)",
		},
		"all places that were granted are in use": {
			func(s *api.Stats) {
				s.Fleet = &api.Fleet{Mode: api.FleetShare}
				s.Services[0].Queue.Waiting, s.Services[0].Queue.OldestSeconds = 2, 1.5
				for i := range s.Backends {
					s.Backends[i].Limit = 3
					s.Backends[i].Places = &api.Places{Grant: 3, Granted: 32, Cap: 32, Others: []api.PlaceHolder{{Name: "proxy-b", Places: 29}}}
				}
				for i := range 5 {
					s.Backends[0].Places.Others = append(s.Backends[0].Places.Others, api.PlaceHolder{Name: fmt.Sprint("proxy-", i), Places: 1})
				}
				s.Backends[2].State = "draining"
			}, nil,
			"1 service stt: 2 clients wait, the first for 1.5s; gpu-1: 3 of 32 granted to this proxy, 29 to proxy-b, 1 to proxy-0, 1 to proxy-1, 3 to 3 more; " +
				"gpu-2: 3 of 32 granted to this proxy, 29 to proxy-b\n1 backend gpu-3: draining: 3 sessions left",
		},
		"all places of a proxy that is alone are in use": {
			func(s *api.Stats) {
				s.Fleet = &api.Fleet{Mode: api.FleetAlone}
				s.Services[0].Queue.Waiting, s.Services[0].Queue.OldestSeconds = 2, 1.5
				for i := range s.Backends {
					s.Backends[i].Limit = 3
					s.Backends[i].Places = &api.Places{Grant: 3, Granted: 3, Cap: 3}
				}
			}, nil,
			"1 service stt: 2 clients wait, the first for 1.5s",
		},
		"clients wait beside places that were granted": {
			func(s *api.Stats) {
				s.Services[0].Queue.Waiting, s.Services[0].Queue.OldestSeconds = 2, 1.5
				for i := range s.Backends {
					s.Backends[i].Limit, s.Backends[i].Places = 4, &api.Places{Grant: 4, Granted: 32, Cap: 32}
				}
			}, nil, "1 service stt: 2 clients wait, the first for 1.5s",
		},
		"a cap below what is granted": {
			func(s *api.Stats) { s.Backends[1].Places = &api.Places{Grant: 3, Granted: 40, Cap: 32} }, nil,
			"1 backend gpu-2: proxies have 40 of 32 places, until sessions end: its cap was lowered, or one is back that was taken for dead",
		},
		"no place": {
			func(s *api.Stats) {
				b := &s.Backends[1]
				b.Places, b.Reachable, b.Reason = &api.Places{Granted: 30, Cap: 32}, false, "not dialed yet"
			}, nil,
			"1 backend gpu-2: not dialed yet: this proxy has no place there; 30 of 32 are granted",
		},
		"shortage": {
			func(s *api.Stats) { s.Shortages = []string{"clients cannot be accepted: out of file descriptors"} }, nil,
			"0 proxy: clients cannot be accepted: out of file descriptors",
		},
		"a disk with room": {
			func(s *api.Stats) {
				s.Disks = []api.Disk{{Path: "/a", Holds: "state", SizeBytes: 4 << 40, FreeBytes: 2 << 30}, {SizeBytes: 1 << 20, FreeBytes: 200 << 10}}
			}, nil, "",
		},
		"a disk that is nearly full": {
			func(s *api.Stats) {
				s.Disks = []api.Disk{{Path: "/a", Holds: "state", SizeBytes: 1 << 30, FreeBytes: 50 << 20}}
			}, nil,
			"1 proxy: the disk of /a (state) is nearly full: 50 MiB of 1.0 GiB are free",
		},
		"a full disk": {
			func(s *api.Stats) {
				s.Disks = []api.Disk{{Path: "/a", Holds: "state, database", SizeBytes: 1 << 30, FreeBytes: 100 << 10}}
			}, nil,
			"0 proxy: the disk of /a (state, database) is full: the proxy serves, but can store nothing, and changes of the configuration fail",
		},
		"TLS in order": {func(s *api.Stats) { s.TLS = &api.TLS{Certificates: []api.Certificate{{File: "a.pem", State: "valid"}}} }, nil, ""},
		"a certificate that expires": {
			func(s *api.Stats) {
				s.TLS = &api.TLS{Certificates: []api.Certificate{{File: "a.pem", NotAfter: since, State: "expiring"}}}
			}, nil,
			"1 certificate a.pem: it expires at 2026-11-22T12:00:00Z: renew it",
		},
		"a certificate that has expired": {
			func(s *api.Stats) {
				s.TLS = &api.TLS{Certificates: []api.Certificate{{File: "a.pem", NotAfter: since, State: "expired"}}}
			}, nil,
			"0 certificate a.pem: it has expired at 2026-11-22T12:00:00Z: clients refuse it (12:00)",
		},
		"bad files of TLS": {
			func(s *api.Stats) {
				s.TLS = &api.TLS{Failure: "tls-cert a.pem: no certificate in PEM form", FailureSince: since}
			}, nil,
			"0 TLS: files are bad, and what was read before stays in force: tls-cert a.pem: no certificate in PEM form (12:00)",
		},
		"stale": {
			func(s *api.Stats) {
				s.Configuration = api.Configuration{State: "stale", Reason: "disk on fire", Since: since}
			}, nil,
			"0 configuration: stale: disk on fire (12:00)",
		},
		"waiting": {
			func(s *api.Stats) { s.Services[0].Queue.Waiting, s.Services[0].Queue.OldestSeconds = 3, 4.25 }, nil,
			"1 service stt: 3 clients wait, the first for 4.2s",
		},
		"full": {
			func(s *api.Stats) { s.Services[0].Queue.Waiting, s.Services[0].Queue.Limit = 1, 1 }, nil,
			"0 service stt: its queue is full: 1 client waits, the first for 0s",
		},
		"shutting down, with a delay": {func(s *api.Stats) {
			s.Draining, s.Drain, s.Sessions.Active = true, &api.Drain{Since: since, Accepting: true, Closes: since.Add(5 * time.Second)}, 2
		}, nil, "1 proxy: it shuts down: not ready, clients are accepted until 12:00:05Z, 2 sessions (12:00)"},
		"shutting down, without a limit": {func(s *api.Stats) { s.Draining, s.Drain, s.Sessions.Active = true, &api.Drain{Since: since}, 1 }, nil, "1 proxy: it shuts down: no new clients are accepted, 1 session left (12:00)"},
		"shutting down, with a limit": {func(s *api.Stats) {
			s.Draining, s.Drain = true, &api.Drain{Since: since, Spread: since.Add(20 * time.Second), Deadline: since.Add(30 * time.Second)}
		}, nil, "1 proxy: it shuts down: no new clients are accepted, 0 sessions left, closed from 12:00:20Z to 12:00:30Z (12:00)"},
		"shutting down, all at once": {func(s *api.Stats) {
			s.Draining, s.Drain = true, &api.Drain{Since: since, Spread: since, Deadline: since}
		}, nil, "1 proxy: it shuts down: no new clients are accepted, 0 sessions left, closed at 12:00:00Z (12:00)"},
		"paused":         {func(s *api.Stats) { s.Services[0].Paused = true }, nil, "1 service stt: paused: clients wait until it is resumed"},
		"paused waiting": {func(s *api.Stats) { s.Services[0].Paused, s.Services[0].Queue.Waiting = true, 1 }, nil, "1 service stt: paused: 1 client waits, the first for 0s"},
		"no backends":    {func(s *api.Stats) { s.Backends = nil }, nil, "0 service stt: it has no backends"},
		"DNS fails": {func(s *api.Stats) {
			s.Discovery = []api.Discovery{{Backend: "gpu", Servers: 3, Failing: since, Reason: "no such host", LeftOut: []string{"0.0.0.0:1: why"}, Host: "stt.svc"}}
		}, nil, "1 backend gpu: DNS lookups fail, 3 known servers stay: no such host (12:00)\n1 backend gpu: addresses of stt.svc are not used: 0.0.0.0:1: why"},
		"DNS has never told a server": {func(s *api.Stats) {
			s.Discovery = []api.Discovery{{Backend: "gpu", Failing: since, Reason: "no such host"}, {Backend: "well", Servers: 1}}
		}, nil, "0 backend gpu: it has no servers: no such host (12:00)"},
		"worst first": {
			func(s *api.Stats) {
				s.Services[0].Queue.Waiting = 2
				s.Backends[0].State, s.Backends[0].Usable = "draining", false
				s.Backends[1].Circuit, s.Backends[1].CircuitReason, s.Backends[1].CircuitSince, s.Backends[1].Usable = "open", "refused", since, false
				s.Backends[2].Ceiling = 20
			}, nil,
			"0 backend gpu-2: circuit open: refused (12:00)\n1 service stt: 2 clients wait, the first for 0s\n1 backend gpu-1: draining: 3 sessions left\n" +
				"1 backend gpu-3: the server says that it is full: 20 of 32 connections",
		},
		"none usable": {
			func(s *api.Stats) {
				for i := range s.Backends {
					s.Backends[i] = api.Backend{Name: s.Backends[i].Name, Service: "stt", Pool: api.Pool{State: "disabled"}}
				}
				s.Services[0].Queue.Waiting = 1
			}, nil,
			"0 service stt: none of its backends can take sessions; 1 client waits, the first for 0s\n1 backend gpu-1: disabled: it is empty\n" +
				"1 backend gpu-2: disabled: it is empty\n1 backend gpu-3: disabled: it is empty",
		},
		"slow": {
			func(*api.Stats) {}, append(append(replies("gpu-1", 0.2, 5), replies("gpu-2", 0.9, 5)...), replies("gpu-3", 0.3, 7)...),
			"1 backend gpu-2: slow: its first reply takes 900ms, that of the others of stt 250ms",
		},
		"slow, but too few sessions": {func(*api.Stats) {}, append(replies("gpu-1", 0.2, 5), replies("gpu-2", 0.9, 4)...), ""},
		"slow, but not noticeably":   {func(*api.Stats) {}, append(replies("gpu-1", 0.002, 5), replies("gpu-2", 0.05, 5)...), ""},
	} {
		s := well()
		c.change(s)
		var lines []string
		for _, f := range Find(s, Latencies(c.sessions)) {
			line := fmt.Sprintf("%d %s: %s", f.Level, f.What, f.Text)
			if !f.Since.IsZero() {
				line += f.Since.Format(" (15:04)")
			}
			lines = append(lines, line)
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
