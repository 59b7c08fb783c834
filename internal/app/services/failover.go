package services

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// moveTimeout is how long a session whose backend has failed waits for the next one. A new client that gets none goes elsewhere after
// queue-timeout; this one would lose what it has said. It is long enough for a place of a proxy that died with the same machine, or for a database
// that has to be taken over by another.
const moveTimeout = 30 * time.Second

// failoverOf returns what becomes of a service's sessions whose backends die, stall or are drained, without what was counted; nil if the
// service says nothing about it.
func failoverOf(c *config.Service, p *profile.Profile) *api.ServiceFailover {
	if !c.Replays() && c.StallTimeout == 0 {
		return nil
	}
	can := p.Failover()
	return &api.ServiceFailover{
		Mode: c.Failover, Verdict: can.Verdict.String(), Why: can.Why, WindowSeconds: c.ReplayWindow.Seconds(),
		StallTimeoutSeconds: mostStall(c).Seconds(), StallTimeoutAuto: c.StallTimeout == config.StallAuto, Rebalance: c.Rebalance,
	}
}

// autoStall is after how long a backend has stalled with stall-timeout: auto, as long as its session has learned nothing. No recogniser that works takes
// as long for what was said.
const autoStall = 30 * time.Second

// mostStall returns after how long at most a backend has stalled; 0 for never.
func mostStall(c *config.Service) time.Duration {
	if c.StallTimeout == config.StallAuto {
		return autoStall
	}
	return c.StallTimeout
}

// rebalanced returns the backends that sessions of the service move between to even out the load; none if they do not.
func (v *service) rebalanced() (all []*backend.Backend) {
	if !v.plan.Service.Rebalance {
		return nil
	}
	for _, m := range v.inOrder() {
		all = append(all, m.Backend)
	}
	return all
}

// reliefEvery is the time between two sessions that leave a backend whose results stay too late.
const reliefEvery = 5 * time.Second

// Relief is a backend that one session should leave, since its results stay too late, and where to.
type Relief struct{ From, To *backend.Backend }

// SessionsLag has the backends of services with a lag-limit know how late their results come. read returns that, by service and backend. It returns
// which sessions should move, as far as their service has failover and another backend has room.
func (s *Services) SessionsLag(read func(service, name string) backend.LagReading) (reliefs []Relief) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.services {
		if v.plan.LagLimit == 0 {
			continue
		}
		for name, m := range v.members {
			if m.SessionsLag(read(v.name, name)) && v.plan.Replays() && time.Since(m.relieved) >= reliefEvery {
				if to := v.quickest(read); to != nil {
					m.relieved = time.Now()
					reliefs = append(reliefs, Relief{m.Backend, to})
				}
			}
		}
	}
	return reliefs
}

// quickest returns the backend whose results come soonest of those that have a place and come within half of the limit; nil for none.
func (v *service) quickest(read func(service, name string) backend.LagReading) (quickest *backend.Backend) {
	least := v.plan.LagLimit / 2
	loads, _ := v.group.Loads()
	for i := range loads {
		for name, m := range v.members {
			if lag := read(v.name, name).Lag; m.Pool() == loads[i].Pool && loads[i].Takes && loads[i].Free > 0 && lag < least {
				quickest, least = m.Backend, lag
			}
		}
	}
	return quickest
}
