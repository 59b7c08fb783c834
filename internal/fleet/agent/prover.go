package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// prover looks for proof that proxies are dead, in its own goroutine, since that may wait for the network.
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

const (
	// proofTimeout is the longest that the prover waits for a proxy that is suspected, and meetTimeout for one that lives: those that
	// do not answer delay what the others prove.
	proofTimeout = 2 * time.Second
	meetTimeout  = 500 * time.Millisecond
	// mostExamined is how many proxies are looked at at a time.
	mostExamined = 64
)

func newProver(p Presence) *prover {
	return &prover{presence: p, jobs: make(chan job, 1), deaths: make(chan death)}
}

// look gives the prover something to look at, instead of what it has not begun with. It does not wait.
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
	dead := make(map[fleet.ID]uint64) // those that the agent knows of, and how many exchanges they had made
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-p.jobs:
			p.examineAll(ctx, &j, dead)
			maps.DeleteFunc(dead, func(id fleet.ID, _ uint64) bool {
				return !slices.ContainsFunc(j.members, func(m fleet.Member) bool { return m.ID == id })
			})
			p.presence.Tidy(j.members)
		}
	}
}

// examineAll looks at all proxies, those first that are suspected.
func (p *prover) examineAll(ctx context.Context, j *job, dead map[fleet.ID]uint64) {
	slices.SortStableFunc(j.members, func(a, b fleet.Member) int {
		return cmp.Compare(rank(j.suspects[a.ID]), rank(j.suspects[b.ID]))
	})
	turns := make(chan struct{}, mostExamined)
	died := make([]bool, len(j.members))
	var all sync.WaitGroup
	for i := range j.members {
		m := &j.members[i]
		if made, known := dead[m.ID]; m.ID == j.self || known && m.Heartbeats <= made {
			continue
		}
		turns <- struct{}{}
		all.Go(func() {
			died[i] = p.examine(ctx, m, j.suspects[m.ID])
			<-turns
		})
	}
	all.Wait()
	for i, is := range died {
		if is {
			dead[j.members[i].ID] = j.members[i].Heartbeats
		}
	}
}

func rank(suspected bool) int {
	if suspected {
		return 0
	}
	return 1
}

// examine looks at one proxy, and reports to the agent if it is dead. It returns whether it has.
func (p *prover) examine(ctx context.Context, m *fleet.Member, suspected bool) (reported bool) {
	limit := meetTimeout
	if suspected {
		limit = proofTimeout
	}
	looking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	how, is := p.presence.Dead(looking, *m, suspected)
	if !is {
		if !suspected {
			p.presence.Meet(looking, *m)
		}
		return false
	}
	select {
	case p.deaths <- death{*m, how}:
		return true
	case <-ctx.Done():
		return false
	}
}
