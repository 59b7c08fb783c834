package diagnosis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Latency is how long sessions of a backend took from the client's first message to the backend's first.
type Latency struct {
	Median   float64 // seconds
	Sessions int     // that have had their first reply
}

// Latencies returns the latency of each backend that had first replies in the sessions.
func Latencies(sessions ...[]api.Session) map[string]Latency {
	replies := make(map[string][]float64)
	for _, all := range sessions {
		for i := range all {
			if s := &all[i]; s.FirstReplySeconds > 0 && !s.FirstReplyOwed && s.Backend != "" {
				replies[s.Backend] = append(replies[s.Backend], s.FirstReplySeconds)
			}
		}
	}
	latencies := make(map[string]Latency, len(replies))
	for name, all := range replies {
		latencies[name] = Latency{median(all), len(all)}
	}
	return latencies
}

// When a backend counts as slow: it has had enough sessions, and takes slowRatio times as long as the median of its peers, and so
// much longer that a user notices.
const (
	slowSessions = 5
	slowRatio    = 2.0
	slowBy       = 0.1 // seconds
)

type slow struct {
	name, service string
	own, others   float64 // seconds
}

// slowOnes returns the backends that are much slower than the others of their service.
func slowOnes(s *api.Stats, latencies map[string]Latency) (found []slow) {
	byService := make(map[string][]string)
	for i := range s.Backends {
		if b := &s.Backends[i]; latencies[b.Name].Sessions >= slowSessions {
			byService[b.Service] = append(byService[b.Service], b.Name)
		}
	}
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		for _, name := range byService[service] {
			var others []float64
			for _, other := range byService[service] {
				if other != name {
					others = append(others, latencies[other].Median)
				}
			}
			if len(others) == 0 {
				continue
			}
			own, usual := latencies[name].Median, median(others)
			if own >= slowRatio*usual && own-usual >= slowBy {
				found = append(found, slow{name, service, own, usual})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b slow) int { return cmp.Compare(b.own, a.own) })
	return found
}

// median returns the middle of numbers, of which there is at least one. It reorders them.
func median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
