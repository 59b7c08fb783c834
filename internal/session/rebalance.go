package session

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// A service with Rebalance keeps the load of its backends even while sessions last: after a server was added, or has come back, sessions move
// to it. [rebalancer] decides what moves where, and does nothing else; rebalancing.go has it done.

const (
	// tooMuch is by how much a backend's part of the sessions may exceed its share before some move away.
	tooMuch = 0.15
	// tooLong is for how long it must exceed that.
	tooLong = 30 * time.Second
	// movesPerSecond is how many sessions of a service move for that reason at most in a second.
	movesPerSecond = 3
	// restTime is how long a session stays where it has moved to, before it moves for that reason again.
	restTime = 5 * time.Minute
)

// share is how busy one backend of a service is. Backends are named by their places in a list.
type share struct {
	id       int     // tells the backend from the others, also from one step to the next
	sessions int     // that it serves, with those that are on their way to it and without those that are to leave it
	weighted float64 // what its part of all sessions is in proportion to: its limit times its weight
	free     int     // how many more sessions could begin there
	// counts: it is to get sessions and does, so that its share counts; takes: sessions may move to it now.
	counts, takes bool
}

// transfer is a session to move from one backend to another.
type transfer struct{ from, to int }

// rebalancer decides which backends of one service give sessions to which. It is data: it has no clock, and its owner asks it once a
// second.
type rebalancer struct {
	over   map[int]time.Duration // since when each backend that has too much has had too much
	active map[int]bool          // backends that give sessions away, until they have no more than their share
	random *rand.Rand
}

func newRebalancer(seed uint64) *rebalancer {
	return &rebalancer{over: make(map[int]time.Duration), active: make(map[int]bool), random: rand.New(rand.NewPCG(seed, 0))}
}

// plan returns the transfers to begin now, at most a few. Each brings both backends closer to their share, and none goes beyond it, so that
// transfers never go in a circle. now is any clock's time.
func (r *rebalancer) plan(now time.Duration, shares []share) (transfers []transfer) {
	total, weights := 0.0, 0.0
	for _, s := range shares {
		if s.counts {
			total, weights = total+float64(s.sessions), weights+s.weighted
		}
	}
	present := make(map[int]bool, len(shares))
	excess := make([]float64, len(shares))
	for i, s := range shares {
		present[s.id] = true
		if !s.counts || weights == 0 {
			delete(r.over, s.id)
			delete(r.active, s.id)
			continue
		}
		target := total * s.weighted / weights
		excess[i] = float64(s.sessions) - target
		r.watch(now, s.id, excess[i], target)
	}
	left := func(id int) bool { return !present[id] }
	maps.DeleteFunc(r.over, func(id int, _ time.Duration) bool { return left(id) })
	maps.DeleteFunc(r.active, func(id int, _ bool) bool { return left(id) }) // it may give sessions away without having too much any more
	for len(transfers) < movesPerSecond {
		from, to := r.pick(shares, excess)
		if from < 0 || to < 0 {
			return transfers
		}
		transfers = append(transfers, transfer{from: shares[from].id, to: shares[to].id})
		excess[from]--
		excess[to]++
		shares[to].free--
	}
	return transfers
}

// watch notes since when a backend has too much.
func (r *rebalancer) watch(now time.Duration, id int, excess, target float64) {
	if excess <= tooMuch*target {
		delete(r.over, id)
	} else if _, known := r.over[id]; !known {
		r.over[id] = now
	}
	if since, known := r.over[id]; known && now-since >= tooLong {
		r.active[id] = true
	}
	if excess <= half {
		delete(r.active, id)
	}
}

// half a session is as close to its share as a backend can be brought.
const half = 0.5

// pick returns the places of the backend that has most above its share and gives some away, and of that which has least and takes
// sessions; -1 for none.
func (r *rebalancer) pick(shares []share, excess []float64) (from, to int) {
	order := r.random.Perm(len(shares)) // so that equal ones take turns
	most := func(fits func(i int) bool, less func(a, b float64) int) int {
		best := -1
		for _, i := range order {
			if fits(i) && (best < 0 || less(excess[i], excess[best]) > 0) {
				best = i
			}
		}
		return best
	}
	from = most(func(i int) bool { return r.active[shares[i].id] && excess[i] > half }, cmp.Compare[float64])
	to = most(func(i int) bool {
		s := &shares[i]
		return s.counts && s.takes && s.free > 0 && excess[i] < -half
	}, func(a, b float64) int { return cmp.Compare(b, a) })
	return from, to
}

// gives reports whether some backend is to give sessions away.
func (r *rebalancer) gives() bool { return len(r.active) > 0 }

// drawn returns up to n of the sessions that may move, at random.
func drawn[T any](r *rebalancer, all []T, n int) []T {
	r.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Clip(all[:min(n, len(all))])
}
