package agent

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// prover looks for proof that proxies are dead, in a goroutine of its own, since that may wait for the network.
type prover struct {
	presence Presence
	jobs     chan job // of size one: the latest
	deaths   chan death
}

// job is what to look at.
type job struct {
	self     fleet.ID
	members  []fleet.Member
	suspects map[fleet.ID]bool
}

// death is a proxy that is proven dead.
type death struct {
	member fleet.Member
	how    string
}

// proofTimeout is the longest that the prover waits for one proxy.
const proofTimeout = 2 * time.Second

func newProver(p Presence) *prover {
	return &prover{presence: p, jobs: make(chan job, 1), deaths: make(chan death)}
}

// look gives the prover something to look at, in the place of what it has not begun with. It does not wait.
func (p *prover) look(j job) {
	if p.presence == nil {
		return
	}
	select {
	case <-p.jobs:
	default:
	}
	select { // the agent's goroutine is the only one that sends
	case p.jobs <- j:
	default:
	}
}

// run does the jobs until ctx ends.
func (p *prover) run(ctx context.Context) {
	dead := make(map[fleet.ID]bool) // those that were told
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			there := make(map[fleet.ID]bool, len(j.members))
			for _, m := range j.members {
				there[m.ID] = true
				if m.ID != j.self {
					p.examine(ctx, &m, j.suspects[m.ID], dead)
				}
			}
			for id := range dead {
				if !there[id] {
					delete(dead, id)
				}
			}
			p.presence.Tidy(j.members)
		}
	}
}

// examine looks at one proxy, and tells if it is dead.
func (p *prover) examine(ctx context.Context, m *fleet.Member, suspected bool, dead map[fleet.ID]bool) {
	if dead[m.ID] {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	how, is := p.presence.Dead(ctx, *m, suspected)
	if !is {
		if !suspected {
			p.presence.Meet(ctx, *m)
		}
		return
	}
	select {
	case p.deaths <- death{*m, how}:
		dead[m.ID] = true
	case <-ctx.Done():
	}
}
