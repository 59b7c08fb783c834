package diagnosis

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Describe sets the condition of each service and backend, by what the statistics and their list of problems say. Everything that shows one shows
// these words, so that no two views differ, and none contradicts the list. It has no effect the second time.
func Describe(s *api.Stats) {
	for i := range s.Backends {
		s.Backends[i].Condition = conditionOf(s, &s.Backends[i])
	}
	for i := range s.Services {
		s.Services[i].Condition = conditionOfService(s, &s.Services[i])
	}
}

// DescribeOlder does the same for a client that has the statistics of a proxy whose version reports no problems.
func DescribeOlder(s *api.Stats) {
	if s.Problems == nil {
		Describe(s)
	}
}

// backendWords are the words for a backend with a problem that its health does not show.
var backendWords = map[Kind]string{
	BackendHung: api.Hung, BackendStalled: "stalled", BackendFlapping: "flapping", BackendSlow: "slow", BackendLate: "late", BackendFull: "full", BackendNoPlace: "no place",
	BackendOverGranted: "over-granted", CanaryDoubtful: "canary doubtful",
}

// noWeight is why a healthy backend gets no sessions.
const noWeight = "its weight is 0"

func conditionOf(s *api.Stats, b *api.Backend) api.Condition {
	worst := problemOf(s.Problems, func(p *api.Problem) bool {
		return p.Service == b.Service && p.Backend == b.Name && backendWords[Kind(p.Kind)] != ""
	})
	health := healthOf(b)
	switch {
	case b.State == "draining" || b.State == "disabled":
		why := sessionsLeft(b)
		if health.Word != api.Healthy && health.Why != notDialed {
			why += then(health.Word) + strings.TrimSuffix(": "+health.Why, ": ")
		}
		return api.Condition{Word: b.State, Level: api.LevelOff, Why: why}
	case b.Untried() && health.Word == api.Unreachable:
		return api.Condition{Word: backendWords[BackendNoPlace], Level: api.LevelWarning, Why: noPlace(b), Since: health.Since}
	case worst != nil && Kind(worst.Kind) == BackendFlapping, worst != nil && health.Word == api.Healthy:
		word := backendWords[Kind(worst.Kind)]
		return api.Condition{Word: word, Level: worst.Level, Why: strings.TrimPrefix(worst.Text, word+": "), Since: worst.Since}
	case health.Word != api.Healthy:
		if b.Usable || health.Why == notDialed {
			health.Level = api.LevelWarning
		}
		if p := problemOf(s.Problems, func(p *api.Problem) bool {
			return p.Service == b.Service && p.Backend == b.Name && keepsAway(Kind(p.Kind))
		}); p != nil {
			health.Since = p.Since // of all of it, and not of its present state
		}
		return health
	case b.State != "" && b.Weight == 0:
		return api.Condition{Word: "no weight", Level: api.LevelOff, Why: noWeight}
	case b.State != "" && !b.Usable:
		return api.Condition{Word: "not usable", Level: api.LevelFailure, Why: "no session may begin"}
	case b.Usable && b.Ramp > 0 && b.Ramp < 1:
		return api.Condition{Word: "starting", Level: api.LevelOK, Why: fmt.Sprintf("slow start: %.0f %% of its weight", 100*b.Ramp), Since: health.Since}
	}
	return health
}

// healthOf returns a backend's health. What the trials of an open circuit meet now says more than what opened it.
func healthOf(b *api.Backend) api.Condition {
	c := b.Health.Condition()
	if b.Circuit != "closed" && b.Circuit != "" && !b.Reachable && b.Reason != "" && b.Reason != notDialed {
		c.Why = b.Reason
	}
	return c
}

// sessionsLeft returns how many sessions a backend has that gets no new ones.
func sessionsLeft(b *api.Backend) string {
	if n := b.Leased + b.Resetting; n > 0 {
		return figures.Plural(n, "session") + " left"
	}
	return "it is empty"
}

// noPlace is why a backend was never dialed.
func noPlace(b *api.Backend) string {
	return fmt.Sprintf("not dialed yet: this proxy has no place there; %d of %d are granted", b.Places.Granted, b.Places.Cap)
}

// ServiceDownWord is the word for a service that can take no sessions.
const ServiceDownWord = "down"

// The other words for a service.
const (
	serviceUp       = "up"
	serviceDegraded = "degraded"
	serviceFull     = "queue full"
	servicePaused   = "paused"
)

// serviceWords are the words for a service with a problem.
var serviceWords = map[Kind]string{
	ServiceDown: ServiceDownWord, ServiceDegraded: serviceDegraded, ServiceQueueFull: serviceFull, TenantFillsQueue: serviceFull, ServicePaused: servicePaused,
	ServiceWaiting: "clients wait", ServiceNearlyFull: "nearly full", FailoverFailed: serviceDegraded,
}

func conditionOfService(s *api.Stats, v *api.Service) api.Condition {
	own := problemOf(s.Problems, func(p *api.Problem) bool {
		return p.Service == v.Name && p.Backend == "" && serviceWords[Kind(p.Kind)] != ""
	})
	backends := (&Facts{Stats: s}).backends(v.Name)
	usable := 0
	for _, b := range backends {
		if b.TakesSessions() {
			usable++
		}
	}
	switch { // some of it is true before it has held for long enough to be a problem
	case v.Paused:
		c := api.Condition{Word: servicePaused, Level: api.LevelWarning}
		if own != nil && Kind(own.Kind) == ServicePaused {
			c.Since = own.Since
		}
		return c
	case own != nil && Kind(own.Kind) == ServiceDown, own != nil && usable > 0:
		word := serviceWords[Kind(own.Kind)]
		if Kind(own.Kind) == ServiceNearlyFull && v.Queue.Waiting > 0 {
			word = serviceWords[ServiceWaiting]
		}
		return api.Condition{Word: word, Level: own.Level, Why: own.Text, Since: own.Since}
	case len(backends) == 0:
		return api.Condition{Word: ServiceDownWord, Level: api.LevelFailure, Why: "it has no backends"}
	case usable == 0:
		return api.Condition{Word: ServiceDownWord, Level: api.LevelFailure, Why: "none of its backends can take sessions"}
	case v.Queue.Limit > 0 && v.Queue.Waiting >= v.Queue.Limit:
		return api.Condition{Word: serviceFull, Level: api.LevelFailure}
	}
	worst := problemOf(s.Problems, func(p *api.Problem) bool {
		return p.Service == v.Name && p.Backend != "" && (p.Level == api.LevelFailure || p.Hurts == api.HurtsClients)
	})
	if worst == nil {
		return api.Condition{Word: serviceUp, Level: api.LevelOK}
	}
	c := api.Condition{Word: serviceDegraded, Level: worst.Level, Why: worst.What + ": " + worst.Text, Since: worst.Since}
	if worst.Hurts != api.HurtsClients {
		c.Level = api.LevelWarning // its other backends serve
	}
	return c
}

// problemOf returns the first problem of a list that is wanted, which is the worst; nil for none.
func problemOf(problems []api.Problem, wanted func(p *api.Problem) bool) *api.Problem {
	for i := range problems {
		if wanted(&problems[i]) {
			return &problems[i]
		}
	}
	return nil
}
