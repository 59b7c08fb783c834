package services

import (
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// Stats adds the services, their backends, and the backends that are leaving.
func (s *Services) Stats(to *api.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Services, to.Backends = []api.Service{}, []api.Backend{} // without any, the lists are empty and not null
	var usage map[string]fleet.Usage
	if s.grants != nil {
		usage = s.usage()
	}
	for _, v := range s.inOrder() {
		c := &v.plan.Service
		service := api.Service{
			Name: v.name, Host: c.Host, Path: c.Path, Profile: v.plan.profile.Name, Balance: v.plan.balance.String(),
			Failover: failoverOf(c, v.plan.profile), ReconnectSeconds: c.Reconnect.Seconds(), Affinity: v.affinityStats(),
		}
		queue := v.group.Queue()
		service.Queue, service.Paused = queueOf(queue), queue.Paused
		var backends []occupancy
		waiting, oldest := queue.Waiting, queue.OldestSeconds // of all proxies
		for _, m := range v.inOrder() {
			book, used := m.Stats(), usage[m.server]
			places := s.placesOf(m, &book, &used)
			to.Backends = append(to.Backends, api.Backend{
				Name: m.Name(), Service: v.name, URL: m.URL(), Profile: m.Profile().Name, DiscoveredFrom: m.plan.discoveredFrom(), Health: api.Health(m.Health()), Pool: poolOf(&book),
				Retired: book.Totals.Reasons.Sum(), Variants: variantsOf(m.Backend), Places: places, Published: publishedOf(m), Calibrated: m.plan.CalibratedStreams(),
			})
			m.explainCeiling(&to.Backends[len(to.Backends)-1])
			others := s.othersClaim(m.server)
			waiting += others.Waiting
			oldest = max(oldest, float64(others.Waited))
			if book.State == pool.Enabled.String() && book.Weight > 0 {
				backends = append(backends, s.occupancyOf(&book, places, others.Needs))
			}
		}
		service.Fleet, service.Utilisation = demandOf(queue.Waiting, backends)
		service.Fleet.Waiting, service.Fleet.OldestSeconds = waiting, oldest
		to.Services = append(to.Services, service)
		to.Discovery = append(to.Discovery, s.lookupsOf(v)...)
	}
	s.tenantStats(to)
	for _, m := range s.leaving {
		book := m.Stats()
		to.Leaving = append(to.Leaving, api.Leaving{
			Name: m.Name(), Service: m.service, URL: m.URL(), Leased: book.Leased, Resetting: book.Resetting, Retiring: book.Retiring,
		})
	}
}

// lookupsOf returns how the servers of a service are looked up. It is called with mu held.
func (s *Services) lookupsOf(v *service) (all []api.Discovery) {
	for _, b := range v.plan.declared {
		now, ok := s.discovery.Status(b.name)
		if !ok {
			continue
		}
		records := "address"
		switch {
		case now.Service != "":
			records = "EndpointSlice"
		case now.SRV:
			records = "SRV"
		}
		all = append(all, api.Discovery{
			Backend: b.name, Service: v.name, Host: now.Host, Records: records, Servers: s.desired.running[b.name],
			Asked: now.Asked, Answered: now.Answered, Failing: now.Failing, Reason: now.Reason, Lookups: now.Lookups, Failures: now.Failures,
			LeftOut: slices.Concat(now.LeftOut, s.desired.shared[b.name]),
		})
	}
	return all
}

// Count returns the number of services.
func (s *Services) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.services)
}

// Dialed returns how many connections the present backends have dialed since they started.
func (s *Services) Dialed() (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		for _, m := range v.members {
			book := m.Stats()
			n += book.Totals.Dialed
		}
	}
	return n
}

// affinityStats returns what has become of clients with ids; nil if the profile knows none.
func (v *service) affinityStats() *api.ServiceAffinity {
	a := v.affinity
	if v.plan.profile.Affinity() == nil {
		return nil
	}
	return &api.ServiceAffinity{Hits: a.Counted(route.Hit), Misses: a.Counted(route.Miss), Gone: a.Counted(route.Gone), IDs: a.Size()}
}

func queueOf(s pool.QueueStats) api.Queue {
	return api.Queue{Limit: s.Limit, Waiting: s.Waiting, OldestSeconds: s.OldestSeconds, Totals: api.QueueTotals(s.Totals)}
}

func poolOf(s *pool.Stats) api.Pool {
	t := &s.Totals
	return api.Pool{
		State: s.State, Usable: s.Usable, Cap: s.Cap, Ceiling: s.Ceiling, Limit: s.Limit, Warm: s.Warm, Weight: s.Weight, Ramp: s.Ramp,
		Dialing: s.Dialing, Idle: s.Idle, Leased: s.Leased, Resetting: s.Resetting, Retiring: s.Retiring,
		Totals: api.Totals{
			Dialed: t.Dialed, DialFailed: t.DialFailed, Refused: t.Refused, Leased: t.Leased, Returned: t.Returned,
			Discarded: t.Discarded, RetiredIdle: t.RetiredIdle, Reasons: t.Reasons.Named(),
		},
	}
}

// variantsOf returns the statistics of each variant of connections; nil if all connections are alike.
func variantsOf(b *backend.Backend) (all []api.Variant) {
	variants := b.Variants()
	if len(variants) == 1 && variants[0].Variant == "" && variants[0].Outdated == 0 {
		return nil
	}
	for _, v := range variants {
		all = append(all, api.Variant(v))
	}
	return all
}
