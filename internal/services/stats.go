package services

import (
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/stats"
)

// Stats adds the services, their backends, and the backends that are leaving.
func (s *Services) Stats(to *stats.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.inOrder() {
		c := &v.plan.Service
		to.Services = append(to.Services, stats.Service{
			Name: v.name, Host: c.Host, Path: c.Path, Profile: v.plan.profile.Name, Balance: v.plan.balance.String(), Queue: v.group.Queue(),
		})
		for _, m := range v.inOrder() {
			book := m.Stats()
			to.Backends = append(to.Backends, stats.Backend{
				Name: m.Name(), Service: v.name, URL: m.URL(), Profile: m.Profile().Name, Health: m.Health(), Stats: book,
				Retired: book.Totals.Reasons.Sum(), Variants: variantsOf(m.Backend),
			})
		}
	}
	for _, m := range s.leaving {
		book := m.Stats()
		to.Leaving = append(to.Leaving, stats.Leaving{
			Name: m.Name(), Service: m.service, URL: m.URL(), Leased: book.Leased, Resetting: book.Resetting, Retiring: book.Retiring,
		})
	}
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

// variantsOf returns the statistics of each variant of connections; nil if all connections are alike.
func variantsOf(b *backend.Backend) []pool.VariantStats {
	variants := b.Variants()
	if len(variants) == 1 && variants[0].Variant == "" && variants[0].Outdated == 0 {
		return nil
	}
	return variants
}
