package top

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// nothing returns the statistics of a proxy that has nothing to do.
func nothing() *api.Stats {
	return &api.Stats{Problems: []api.Problem{}, Version: "1.2.3", UptimeSeconds: 3600, Configuration: api.Configuration{Version: "4", State: "current", Source: "sqlite:config.db"}}
}

// busyStats returns the statistics of a proxy with two services, and a second later.
func busyStats() (before, after *api.Stats) {
	backend := func(name, service string, leased, idle, limit int) api.Backend {
		return api.Backend{
			Name: name, Service: service, URL: "ws://" + name + ":2700", Profile: "vosk",
			Health: api.Health{Reachable: true, Circuit: "closed", Probe: "off", Since: noon.Add(-time.Hour), RoundTripSeconds: 0.0013},
			Pool: api.Pool{
				State: "enabled", Usable: true, Cap: limit, Ceiling: limit, Warm: limit, Weight: 1, Ramp: 1, Leased: leased, Idle: idle,
				Totals: api.Totals{Dialed: 60, Leased: 812, Returned: 790, Discarded: 2, Reasons: map[string]uint64{"aged": 3, "lost": 1}},
			},
		}
	}
	at := func(second float64) *api.Stats {
		s := nothing()
		s.UptimeSeconds += second
		s.Services = []api.Service{
			{Name: "stt", Path: "/v1/stt", Profile: "vosk", Balance: "least-loaded", Queue: api.Queue{Limit: 1000}, Utilisation: 0.75},
			{Name: "translate", Path: "/v1/mt", Profile: "echo", Balance: "least-loaded", Queue: api.Queue{Limit: 10}, Utilisation: 0.25},
		}
		s.Services[0].Queue.Totals.Queued = 14000
		s.Backends = []api.Backend{
			backend("gpu-1", "stt", 24, 8, 32), backend("gpu-2", "stt", 24, 6, 32), backend("mt-1", "translate", 4, 12, 16),
		}
		s.Backends[1].Resetting = 2
		for i := range 2 {
			s.Backends[i].FirstReplySeconds, s.Backends[i].FirstReplies = 0.34, 7
		}
		s.Sessions = api.Sessions{Active: 52, Total: 812 + uint64(6*second)}
		diagnosis.Describe(s)
		s.Relayed = api.Relayed{FramesFromClients: 100000 + uint64(1040*second), BytesFromClients: 1<<30 + uint64(second)*3<<20}
		return s
	}
	return at(0), at(1)
}

// liveSessions returns sessions in the order of their rates.
func liveSessions(n int) *api.SessionList {
	list := &api.SessionList{Matched: 52, Total: 52}
	for i := range n {
		s := api.Session{
			ID: fmt.Sprintf("q7m2kd4x-%d", 1042+i), Service: "stt", Backend: fmt.Sprintf("gpu-%d", 1+i%2), Client: fmt.Sprintf("10.1.2.%d:40%02d", 3+i%5, i),
			State: api.StateRelaying, Started: noon.Add(-time.Duration(i) * 37 * time.Second), AgeSeconds: float64(i) * 37.3, WaitedSeconds: 0.01,
			FramesFromClient: 250, BytesFromClient: uint64(i) * 812_000, FramesFromBackend: 31, BytesFromBackend: uint64(i) * 6200,
			FirstReplySeconds: 0.34, FramesPerSecond: 21 - float64(i)/2,
		}
		if i == 3 {
			s.LagSeconds, s.OwedSeconds = 12.3, 12.3
		}
		list.Sessions = append(list.Sessions, s)
	}
	return list
}

// A scene is what a proxy has said.
var scenes = map[string]func(m *Model){
	"silent":  func(*Model) {},
	"nothing": func(m *Model) { m.Update(Update{At: noon, Stats: nothing(), Sessions: new(api.SessionList)}) },
	"busy":    playBusy,
	"trouble": playTrouble,
	"fleet":   playFleet,
	"away": func(m *Model) {
		playBusy(m)
		for i := range 3 {
			m.Update(Update{At: noon.Add(time.Duration(i) * time.Second), Away: errors.New("no proxy answers at 10.0.0.1:9090: connect: connection refused")})
		}
	},
}

func playBusy(m *Model) {
	before, after := busyStats()
	m.Update(Update{At: noon, Stats: before})
	m.Update(Update{At: noon.Add(time.Second), Stats: after, Waiting: new(api.SessionList)})
	m.Update(Update{At: noon.Add(time.Second), Sessions: liveSessions(14)})
}

// playFleet plays three proxies, one of which cannot be asked.
func playFleet(m *Model) {
	before, after := busyStats()
	for _, s := range []*api.Stats{before, after} {
		s.Fleet = &api.Fleet{
			Mode: api.FleetShare, Whole: true,
			Proxies: []api.Proxy{
				{ID: "a1", Name: "proxy-a", Self: true, State: api.ProxyServing, Reachable: true},
				{ID: "b2", Name: "proxy-b", State: api.ProxyServing, Reachable: true},
				{ID: "c3", Name: "proxy-c", State: api.ProxyUnseen, SeenSeconds: 12, Problem: "not seen for 12 s"},
			},
			Missing: []api.MissingProxy{{ID: "c3", Name: "proxy-c", Why: "not seen for 12 s: its sessions are not known"}},
		}
	}
	after.Services[0].Queue.Waiting, after.Services[0].Queue.OldestSeconds = 1, 0.4
	after.Problems = diagnosis.OfMissing(after.Fleet, noon)
	diagnosis.Describe(after)
	list := liveSessions(14)
	for i := range list.Sessions {
		s := &list.Sessions[i]
		s.Proxy, s.FramesPerSecond, s.LagSeconds = []string{"proxy-a", "proxy-b"}[i%2], 0, 0
	}
	waiting := &api.SessionList{Matched: 1, Total: 53, Sessions: []api.Session{
		{ID: "q7m2kd4x-2000", Service: "stt", Client: "10.1.9.1:5000", Proxy: "proxy-b", State: api.StateWaiting, Place: 1, WaitedSeconds: 0.4, AgeSeconds: 0.4},
	}}
	m.Update(Update{At: noon, Stats: before})
	m.Update(Update{At: noon.Add(time.Second), Stats: after, Waiting: waiting, Sessions: list})
}

// playTenants adds to the last statistics tenants, a problem whose name is long, and a session whose id is.
func playTenants(m *Model) {
	s := *m.stats
	s.Tenants = []api.Tenant{
		{Name: "acme", Share: 2, Sessions: 30, Waiting: 2, Totals: api.TenantTotals{Sessions: 812, TimedOut: 3, Full: 1}},
		{Name: "globex", Unconfigured: true, Share: 1, Sessions: 6},
	}
	s.Problems = append(s.Problems[:len(s.Problems):len(s.Problems)], api.Problem{
		Kind: "certificate-expired", Level: api.LevelFailure, Hurts: api.HurtsClients, What: "certificate /etc/wsbouncer/certificates/of/all/services/stt.example.com/certificate.pem",
		Text: "it is not valid yet: clients refuse it", Since: noon.Add(-time.Minute), Cure: "wsbouncer check",
	})
	list := liveSessions(14)
	list.Sessions[0].ID, list.Sessions[0].LagSeconds = "q7m2kd4x-4186064984", 4
	m.Update(Update{At: m.now, Stats: &s, Sessions: list})
}

// diagnose returns the problems that a proxy with these statistics reports.
func diagnose(s *api.Stats) []api.Problem {
	return diagnosis.Find(&diagnosis.Facts{Now: noon, Stats: s})
}

func playTrouble(m *Model) {
	playBusy(m)
	_, s := busyStats()
	s.UptimeSeconds++
	s.Services[0].Queue = api.Queue{Limit: 1000, Waiting: 31, OldestSeconds: 8.4, Totals: api.QueueTotals{Queued: 14000, TimedOut: 12}}
	s.Services[0].Utilisation = 1.97
	s.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Moved: 6, NotMoved: 1}
	s.Replay = &api.Replay{MemoryBytes: 12 << 20, LimitBytes: 1 << 30}
	s.Services[1].Paused = true
	down := &s.Backends[0]
	down.Leased, down.Idle, down.Dialing, down.Usable = 0, 0, 1, false
	down.Circuit, down.CircuitReason, down.CircuitSince, down.Reachable = "open", "dial tcp 10.0.0.5:2700: connect: \x1b[2Jrefused", noon.Add(-4*time.Minute), false
	down.Canary, down.CanarySince, down.CanaryReason, down.CanarySeconds = "down", noon.Add(-4*time.Minute), "no result within 10s", 0.34
	down.LagSeconds, down.MedianLagSeconds, down.Stalls, down.Moved, down.NotMoved = 3.4, 0.2, 2, 6, 1
	s.Backends[1].Leased, s.Backends[1].Idle, s.Backends[1].Resetting = 32, 0, 0
	s.Backends[2].State = "draining"
	s.Problems = diagnose(s)
	waiting := &api.SessionList{Matched: 31, Total: 83}
	for i := range 5 {
		waiting.Sessions = append(waiting.Sessions, api.Session{
			ID: fmt.Sprintf("q7m2kd4x-%d", 2000+i), Service: "stt", Client: fmt.Sprintf("10.1.9.%d:5000", i), State: api.StateWaiting,
			Place: i + 1, WaitedSeconds: 8.4 - float64(i), AgeSeconds: 8.4 - float64(i),
		})
	}
	diagnosis.Describe(s)
	m.Update(Update{At: noon.Add(2 * time.Second), Stats: s, Waiting: waiting})
}
