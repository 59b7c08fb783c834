package relay

import (
	"slices"
	"time"
)

// BackendName is what statistics call a backend.
type BackendName struct{ Service, Backend string }

// Lag is for how long a backend has owed results to its sessions, of those that are watched for stalls.
type Lag struct{ Longest, Median time.Duration }

// Lags returns the lag of each backend that has such sessions. Like [Sessions.Describe], it must not be called on a loop, and holds none
// for long.
func (s *Sessions) Lags() map[BackendName]Lag {
	if !s.watching.Load() {
		return nil
	}
	all := make(map[BackendName][]time.Duration)
	sessions, _ := s.registry.all()
	s.Each(sessions, func(session *Session) {
		if f := session.failover; f != nil && f.watch != nil && session.leg.conn != nil {
			name := BackendName{session.record.Service.Name, session.record.Backend.Name()}
			all[name] = append(all[name], f.watch.Quiet())
		}
	})
	lags := make(map[BackendName]Lag, len(all))
	for name, each := range all {
		slices.Sort(each)
		lags[name] = Lag{Longest: each[len(each)-1], Median: each[(len(each)-1)/2]}
	}
	return lags
}
