package services

import "github.com/wsbouncer/wsbouncer/internal/servers/pool"

// A proxy that shares servers with others keeps places for failover: when one of its servers dies, its sessions there continue on the others at
// once, and not only when the ledger has been asked, which may be away at that moment. So a service that replays wants, at each server, room for
// its part of the sessions of whichever other server has most of them, also while the proxy drains. It does not need that room: proxies whose
// clients wait come first.

// standby returns how many places for the sessions of other servers each backend of a service is to have. It is called with Services.mu held.
func (s *Services) standby(v *service) map[*member]int {
	if !v.plan.Service.Replays() {
		return nil
	}
	members := v.inOrder()
	all := make([]refuge, len(members))
	for i, m := range members {
		book := m.Stats()
		all[i] = refuge{sessions: book.Leased + book.Resetting, takes: m.mode == pool.Enabled && book.Weight > 0 && s.stays(m)}
	}
	places := make(map[*member]int)
	for i, n := range standbyOf(all) {
		places[members[i]] = n
	}
	return places
}

// refuge is a server that may have to take the sessions of another one.
type refuge struct {
	sessions int  // of this proxy
	takes    bool // it gets new sessions
}

// standbyOf returns how many places for others' sessions each server is to have. What a server loses is dealt out evenly to those that are
// left.
func standbyOf(all []refuge) []int {
	takers := 0
	for _, r := range all {
		if r.takes {
			takers++
		}
	}
	places := make([]int, len(all))
	for i, r := range all {
		if !r.takes {
			continue
		}
		for j, lost := range all {
			left := takers
			if lost.takes {
				left--
			}
			if j != i && left > 0 {
				places[i] = max(places[i], (lost.sessions+left-1)/left)
			}
		}
	}
	return places
}
