package api

import "time"

// Healthy is the condition of a backend that works.
const Healthy = "healthy"

// Unreachable is the condition of a backend to which a proxy has no connection, and cannot get one.
const Unreachable = "unreachable"

// Condition is a backend's health in a word or two, for people.
type Condition struct {
	// Word is healthy, circuit open, circuit half-open, probe fails, canary fails, stalled, outlier or unreachable: the first of these that is true.
	Word  string
	Why   string // empty if it is healthy, or if that is not known
	Since time.Time
}

// Condition returns a backend's health: what keeps sessions away comes first.
func (h *Health) Condition() Condition {
	switch {
	case h.Circuit != "" && h.Circuit != "closed":
		return Condition{"circuit " + h.Circuit, h.CircuitReason, h.CircuitSince}
	case h.Probe == "down":
		return Condition{"probe fails", h.ProbeReason, h.ProbeSince}
	case h.Canary == "down":
		return Condition{"canary fails", h.CanaryReason, h.CanarySince}
	case h.Stalled:
		return Condition{"stalled", h.StalledReason, h.StalledSince}
	case h.Outlier:
		return Condition{"outlier", h.OutlierReason, h.OutlierSince}
	case !h.Reachable:
		return Condition{Unreachable, h.Reason, h.Since}
	}
	return Condition{Word: Healthy, Since: h.Since}
}

// Service returns the statistics of a service; nil if there are none. A nil Stats knows none.
func (s *Stats) Service(name string) *Service {
	if s != nil {
		for i := range s.Services {
			if s.Services[i].Name == name {
				return &s.Services[i]
			}
		}
	}
	return nil
}

// Backend returns the statistics of a backend; nil if there are none. A nil Stats knows none.
func (s *Stats) Backend(name string) *Backend {
	if s != nil {
		for i := range s.Backends {
			if s.Backends[i].Name == name {
				return &s.Backends[i]
			}
		}
	}
	return nil
}
