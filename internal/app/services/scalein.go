package services

import (
	"cmp"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Backends returns the backends that run, by name, with what emptying each would mean. ages are how long the sessions of this proxy have
// lasted, by backend; of the other proxies' sessions on the same servers, only the number is known.
//
// A session is expected to last on for as long as those on average that have lasted longer on this service since the proxy started
// ([meter.Distribution.Remaining]).
func (s *Services) Backends(ages map[string][]time.Duration) []api.BackendInUse {
	all := []api.BackendInUse{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.inOrder() {
		var durations meter.Distribution
		for _, m := range v.members {
			lasted := m.meter.Session.Read()
			durations.Add(&lasted)
		}
		failover := failoverOf(&v.plan.Service, v.plan.profile)
		for _, m := range v.inOrder() {
			book, others := m.Stats(), s.othersClaim(m.server)
			b := api.BackendInUse{
				Name: m.Name(), Service: v.name, URL: m.URL(), DiscoveredFrom: m.plan.discoveredFrom(), State: book.State, Usable: book.Usable,
				Sessions: len(ages[m.Name()]), SessionsElsewhere: max(0, others.Needs-others.Waiting),
				Moves: failover != nil && failover.Mode == "replay" && failover.Verdict != "never",
			}
			for _, age := range ages[m.Name()] {
				left := durations.Remaining(age).Seconds()
				b.RemainingSeconds += left
				b.LongestSeconds = max(b.LongestSeconds, left)
			}
			if b.SessionsElsewhere > 0 {
				left := durations.MeanRemaining().Seconds()
				b.RemainingSeconds += left * float64(b.SessionsElsewhere)
				b.LongestSeconds = max(b.LongestSeconds, left)
			}
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b api.BackendInUse) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// SortForScaleIn sorts backends so that the one to empty first comes first: one that no longer gets sessions anyway, then one that does
// not work, then the one whose sessions last on for the shortest time, all added up: few sessions, and short ones.
func SortForScaleIn(all []api.BackendInUse) {
	class := func(b *api.BackendInUse) int {
		switch {
		case b.State != pool.Enabled.String():
			return 0
		case !b.Usable:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b api.BackendInUse) int {
		return cmp.Or(cmp.Compare(class(&a), class(&b)), cmp.Compare(a.RemainingSeconds, b.RemainingSeconds),
			cmp.Compare(a.Sessions+a.SessionsElsewhere, b.Sessions+b.SessionsElsewhere))
	})
}
