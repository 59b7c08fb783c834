package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Reply is how long lately sessions of a backend took from the client's first message to the backend's first.
type Reply struct {
	Seconds  float64 // of a typical session
	Sessions int     // that have had their first reply within some minutes
}

// When a backend counts as slow: it has had enough sessions, of which a clear difference takes fewer, since a few may be slow by chance. It takes
// slowRatio times as long as the median of its peers, and so much longer that a user notices, and that a ping to its peers does not take as long: then this machine or the network may delay it.
const (
	fewSessions  = 5
	slowSessions = 10
	slowRatio    = 2.0
	clearRatio   = 4.0 // after fewSessions
	slowBy       = 0.1 // seconds
)

type slow struct {
	backend     *api.Backend
	own, others float64 // seconds
}

// ofSlowness names the backends that are much slower than the others of their service, the slowest first. A backend that takes no sessions, or
// hangs, is not slow as well, and the others are not compared with how fast it was: they have its sessions now.
func ofSlowness(f *Facts, found *findings) {
	byService := make(map[string][]*api.Backend)
	for i := range f.Stats.Backends {
		b := &f.Stats.Backends[i]
		fails := slices.ContainsFunc(found.all, func(p api.Problem) bool {
			return p.Backend == b.Name && p.Service == b.Service && p.Level == api.LevelFailure
		})
		if !fails && f.Recent.Replies[BackendName{b.Service, b.Name}].Sessions >= fewSessions {
			byService[b.Service] = append(byService[b.Service], b)
		}
	}
	var all []slow
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		seconds := make([]float64, 0, len(byService[service]))
		for _, b := range byService[service] {
			seconds = append(seconds, f.Recent.Replies[BackendName{service, b.Name}].Seconds)
		}
		if len(seconds) < 2 {
			continue
		}
		slices.Sort(seconds)
		for _, b := range byService[service] {
			reply := f.Recent.Replies[BackendName{service, b.Name}]
			own, ratio := reply.Seconds, slowRatio
			if reply.Sessions < slowSessions {
				ratio = clearRatio
			}
			usual := medianWithout(seconds, own)
			if _, ping := roundTrips(f, b); own >= ratio*usual && own-usual >= max(slowBy, ping) {
				all = append(all, slow{b, own, usual})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b slow) int { return cmp.Compare(b.own, a.own) })
	for _, s := range all {
		found.add(BackendSlow, backend(s.backend), "slow: its first reply takes %s, that of the others of %s %s%s",
			figures.Seconds(s.own), s.backend.Service, figures.Seconds(s.others), pings(f, s.backend)).Cure = commandOn(s.backend, "drain")
	}
}

// pings compares how long a ping to a slow backend takes with those to the others of its service, which tells a slow network from a busy server;
// empty if that is not known.
func pings(f *Facts, slow *api.Backend) string {
	own, usual := roundTrips(f, slow)
	if own == 0 || usual == 0 {
		return ""
	}
	why := "so the server itself is slow"
	if own >= slowRatio*usual && own-usual >= slowBy {
		why = "so look at the network to it"
	}
	return fmt.Sprintf("; a ping takes %s, to the others %s, %s", figures.Seconds(own), figures.Seconds(usual), why)
}

// roundTrips returns how many seconds a ping to a backend takes, and to the others of its service; 0 if that is not known.
func roundTrips(f *Facts, one *api.Backend) (own, others float64) {
	var seconds []float64
	for _, b := range f.backends(one.Service) {
		if b != one && b.RoundTripSeconds > 0 {
			seconds = append(seconds, b.RoundTripSeconds)
		}
	}
	if len(seconds) > 0 {
		slices.Sort(seconds)
		others = seconds[len(seconds)/2]
	}
	return one.RoundTripSeconds, others
}

// medianWithout returns the middle of sorted numbers, of which there are at least two, but for one of them.
func medianWithout(sorted []float64, one float64) float64 {
	left, _ := slices.BinarySearch(sorted, one)
	at := func(i int) float64 {
		if i >= left {
			i++
		}
		return sorted[i]
	}
	n := len(sorted) - 1
	return (at((n-1)/2) + at(n/2)) / 2
}
