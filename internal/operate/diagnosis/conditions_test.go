package diagnosis

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// The words for a backend and its service say what the list of problems says, and since when.
func TestDescribe(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(b *api.Backend, v *api.Service, s *api.Stats)
		kinds            []Kind // of problems of the backend, or of the service
		backend, service string // word, level and why
	}{
		"all is well": {backend: "healthy ok", service: "up ok"},
		"hung": {
			kinds:   []Kind{BackendHung},
			backend: "hung failure: evidence", service: "degraded failure: backend gpu-1: hung: evidence",
		},
		"slow": {
			kinds:   []Kind{BackendSlow},
			backend: "slow warning: evidence", service: "degraded warning: backend gpu-1: slow: evidence",
		},
		"an open circuit": {
			change: func(b *api.Backend, _ *api.Service, _ *api.Stats) {
				unreachable(b, "connection refused")
				b.Circuit, b.CircuitReason = "open", "it failed"
			},
			kinds:   []Kind{BackendUnreachable},
			backend: "circuit open failure: connection refused", service: "degraded warning: backend gpu-1: backend-unreachable: evidence",
		},
		"flapping": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { unreachable(b, "connection refused") },
			kinds:   []Kind{BackendFlapping},
			backend: "flapping failure: evidence", service: "degraded failure: backend gpu-1: flapping: evidence",
		},
		"it was slow, and is unreachable": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { unreachable(b, "connection refused") },
			kinds:   []Kind{BackendSlow},
			backend: "unreachable failure: connection refused", service: "degraded warning: backend gpu-1: slow: evidence",
		},
		"draining": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { b.State = "draining" },
			kinds:   []Kind{BackendDraining},
			backend: "draining off: 3 sessions left", service: "up ok",
		},
		"draining, and gone": {
			change: func(b *api.Backend, _ *api.Service, _ *api.Stats) {
				unreachable(b, "connection refused")
				b.State, b.Leased = "draining", 0
			},
			backend: "draining off: it is empty; unreachable: connection refused", service: "up ok",
		},
		"no place": {
			change: func(b *api.Backend, _ *api.Service, _ *api.Stats) {
				unreachable(b, "not dialed yet")
				b.Places = &api.Places{Granted: 32, Cap: 32}
			},
			backend: "no place warning: not dialed yet: this proxy has no place there; 32 of 32 are granted", service: "up ok",
		},
		"without weight": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { b.Weight = 0 },
			backend: "no weight off: its weight is 0", service: "up ok",
		},
		"starting": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { b.Ramp = 0.4 },
			backend: "starting ok: slow start: 40 % of its weight", service: "up ok",
		},
		"a paused service": {
			change:  func(_ *api.Backend, v *api.Service, _ *api.Stats) { v.Paused = true },
			backend: "healthy ok", service: "paused warning",
		},
		"clients wait": {kinds: []Kind{ServiceWaiting}, backend: "healthy ok", service: "clients wait warning: service-waiting: evidence"},
		"full, and clients wait for a moment": {
			change:  func(_ *api.Backend, v *api.Service, _ *api.Stats) { v.Queue.Waiting = 2 },
			kinds:   []Kind{ServiceNearlyFull},
			backend: "healthy ok", service: "clients wait warning: service-nearly-full: evidence",
		},
		"a tenant fills the queue": {
			kinds:   []Kind{TenantFillsQueue, BackendHung},
			backend: "hung failure: evidence", service: "queue full failure: tenant-fills-queue: evidence",
		},
		"a full queue, just now": {
			change:  func(_ *api.Backend, v *api.Service, _ *api.Stats) { v.Queue.Waiting = 10 },
			backend: "healthy ok", service: "queue full failure",
		},
		"all of them fail, just now": {
			change: func(_ *api.Backend, _ *api.Service, s *api.Stats) {
				for i := range s.Backends {
					unreachable(&s.Backends[i], "connection refused")
				}
			},
			backend: "unreachable failure: connection refused", service: "down failure: none of its backends can take sessions",
		},
		"all of them drain, just now": {
			change: func(_ *api.Backend, _ *api.Service, s *api.Stats) {
				for i := range s.Backends {
					s.Backends[i].State = "draining"
				}
			},
			backend: "draining off: 3 sessions left", service: "down failure: none of its backends can take sessions",
		},
		"no backend": {
			change:  func(_ *api.Backend, v *api.Service, _ *api.Stats) { v.Name = "tts" },
			backend: "healthy ok", service: "down failure: it has no backends",
		},
		"another service's backend": {
			change:  func(b *api.Backend, _ *api.Service, _ *api.Stats) { b.Service = "tts" },
			kinds:   []Kind{BackendHung},
			backend: "healthy ok", service: "degraded failure: backend gpu-1: hung: evidence", // the list has one that is gone
		},
	} {
		s := well().Stats
		b, v := &s.Backends[0], &s.Services[0]
		b.Since = since.Add(-time.Hour)
		if c.change != nil {
			c.change(b, v, s)
		}
		for _, kind := range c.kinds {
			about := api.Problem{Kind: string(kind), What: "service stt", Service: "stt", Since: since, Level: natureOf(kind).level, Hurts: natureOf(kind).hurts}
			word := string(kind)
			if strings.HasPrefix(word, "backend") {
				about.What, about.Backend = "backend gpu-1", "gpu-1"
				if known := backendWords[kind]; known != "" {
					word = known
				}
			}
			about.Text = word + ": evidence"
			s.Problems = append(s.Problems, about)
		}
		Sort(s.Problems)
		Describe(s)
		shown := func(c api.Condition) string {
			return strings.TrimSuffix(c.Word+" "+c.Level+": "+c.Why, ": ")
		}
		if got := shown(b.Condition); got != c.backend {
			t.Errorf("%s: the backend is %q; want %q", name, got, c.backend)
		}
		if got := shown(v.Condition); got != c.service {
			t.Errorf("%s: the service is %q; want %q", name, got, c.service)
		}
		if (name == "hung" || name == "an open circuit") && (!b.Condition.Since.Equal(since) || !v.Condition.Since.Equal(since)) {
			t.Errorf("since %v and %v", b.Condition.Since, v.Condition.Since)
		}
	}
}
