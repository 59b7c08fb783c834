package jobs

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// rebalanceTick is how often the loads of backends are compared.
	rebalanceTick = time.Second
	// answeredPointTime is how long a session may take to come to an answered point before another one is asked to move instead. Meanwhile it
	// holds a place on the other backend.
	answeredPointTime = 30 * time.Second
)

// startRebalancing starts the goroutine that evens out the loads of services with Rebalance, unless it runs.
func (j *Jobs) startRebalancing(services []*route.Service) {
	wanted := false
	for _, v := range services {
		wanted = wanted || v.Rebalance
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !wanted || j.rebalances || j.closed {
		return
	}
	j.rebalances = j.pending.Go(func() { j.rebalance(j.closing) })
}

// rebalance evens out the loads of services until ctx ends.
func (j *Jobs) rebalance(ctx context.Context) {
	running := make(map[string]*rebalancing)
	for range tasks.Every(ctx, rebalanceTick) {
		j.rebalanceOnce(running)
	}
}

// rebalanceOnce does one step for each service that wants it. After a panic, the next second tries again.
func (j *Jobs) rebalanceOnce(running map[string]*rebalancing) {
	defer j.guard.Recover("rebalancing", nil)
	present := make(map[string]bool)
	for _, v := range j.routes.Load().ByName {
		if !v.Rebalance || !v.Failover {
			continue
		}
		present[v.Name] = true
		r := running[v.Name]
		if r == nil || r.group != v.Group {
			r = newRebalancing(j, v.Group)
			running[v.Name] = r
		}
		r.step(time.Duration(loop.Now()), v)
	}
	for name, r := range running {
		if !present[name] {
			r.withdraw(func(*balanceMove) bool { return true })
			delete(running, name)
		}
	}
}

// rebalancing evens out the load of one service. The goroutine of [Jobs.rebalance] owns it.
type rebalancing struct {
	*rebalancer
	jobs    *Jobs
	group   *pool.Group[*backend.Conn]        // static
	ids     map[*pool.Pool[*backend.Conn]]int // of the backends that the service has or had at the last step
	lastID  int
	pending []balanceMove // that are open
}

// balanceMove is a pending move that a session moves.
type balanceMove struct {
	session  *relay.Session
	number   uint64
	from, to int // backends
	since    time.Duration
	holds    bool // the session has a connection to the other backend already, which counts as a session there
}

func newRebalancing(j *Jobs, group *pool.Group[*backend.Conn]) *rebalancing {
	return &rebalancing{
		rebalancer: newRebalancer(uint64(time.Now().UnixNano())), jobs: j, group: group,
		ids: make(map[*pool.Pool[*backend.Conn]]int),
	}
}

// step compares the loads once, and begins the transfers that follow.
func (r *rebalancing) step(now time.Duration, v *route.Service) {
	r.review(now)
	backends := make(map[int]*backend.Backend, len(v.Backends))
	for _, b := range v.Backends {
		backends[r.id(b.Pool())] = b
	}
	shares := r.shares()
	r.forget(backends, shares)
	transfers := r.plan(now, shares)
	if !r.gives() {
		r.withdraw(func(*balanceMove) bool { return true })
		return
	}
	wanted := make(map[int][]int) // where to, by where from
	for _, t := range transfers {
		if backends[t.to] != nil {
			wanted[t.from] = append(wanted[t.from], t.to)
		}
	}
	if len(wanted) == 0 {
		return
	}
	candidates := r.candidates(wanted)
	for from, targets := range wanted {
		for i, session := range drawn(r.rebalancer, candidates[from], len(targets)) {
			r.order(session, now, from, targets[i], backends[targets[i]])
		}
	}
}

// id returns what the rebalancer calls a pool.
func (r *rebalancing) id(p *pool.Pool[*backend.Conn]) int {
	id, known := r.ids[p]
	if !known {
		r.lastID++
		id = r.lastID
		r.ids[p] = id
	}
	return id
}

// forget forgets the ids of pools that have gone: a pool that is kept keeps its backend's worker.
func (r *rebalancing) forget(backends map[int]*backend.Backend, shares []share) {
	maps.DeleteFunc(r.ids, func(_ *pool.Pool[*backend.Conn], id int) bool {
		return backends[id] == nil && !slices.ContainsFunc(shares, func(s share) bool { return s.id == id })
	})
}

// shares returns how busy the backends are, as if the pending moves were fulfilled.
func (r *rebalancing) shares() []share {
	loads, _ := r.group.Loads()
	shares := make([]share, len(loads))
	for i := range loads {
		l := &loads[i]
		s := &shares[i]
		*s = share{id: r.id(l.Pool), sessions: l.Leased, weighted: l.Weighted, free: l.Free, counts: l.Serves, takes: l.Takes}
		for j := range r.pending {
			switch w := &r.pending[j]; {
			case w.from == s.id:
				s.sessions--
			case w.to == s.id && !w.holds:
				s.sessions++
				s.free--
			}
		}
	}
	return shares
}

// candidates returns the sessions that could leave the backends that are to give some away, by backend.
func (r *rebalancing) candidates(wanted map[int][]int) map[int][]*relay.Session {
	candidates := make(map[int][]*relay.Session)
	r.jobs.sessions.Each(r.jobs.sessions.All(), func(s *relay.Session) {
		b := s.Record().Backend
		if b == nil || b.Group() != r.group {
			return
		}
		if from := r.id(b.Pool()); wanted[from] != nil && s.FreeToMove(restTime) {
			candidates[from] = append(candidates[from], s)
		}
	})
	return candidates
}

// order has a session move at its next answered point.
func (r *rebalancing) order(session *relay.Session, now time.Duration, from, to int, target *backend.Backend) {
	number := r.jobs.moveJobs.next()
	r.jobs.sessions.Each([]*relay.Session{session}, func(s *relay.Session) {
		if s.FreeToMove(restTime) && s.OrderMove(failover.PendingMove{Number: number, Cause: meter.Rebalanced}, target) == "" {
			r.pending = append(r.pending, balanceMove{session: s, number: number, from: from, to: to, since: now})
		}
	})
}

// review forgets the pending moves that are fulfilled or refused, and takes back those that have taken too long.
func (r *rebalancing) review(now time.Duration) {
	open := make(map[uint64]bool, len(r.pending))
	r.visit(func(s *relay.Session, w *balanceMove) {
		if move, ok := s.MoveProgress(w.number); ok && move.IsOpen() && s.Record().Ended.IsZero() {
			open[w.number], w.holds = true, move.Found
		}
	})
	kept := r.pending[:0]
	for _, w := range r.pending {
		if open[w.number] {
			kept = append(kept, w)
		}
	}
	clear(r.pending[len(kept):])
	r.pending = kept
	r.withdraw(func(w *balanceMove) bool { return now-w.since > answeredPointTime })
}

// withdraw takes back the pending moves that match and that the sessions have not begun to carry out.
func (r *rebalancing) withdraw(matches func(*balanceMove) bool) {
	r.visit(func(s *relay.Session, w *balanceMove) {
		if matches(w) {
			s.WithdrawMove(w.number)
		}
	})
}

// visit calls f with the session of each pending move, on its loop.
func (r *rebalancing) visit(f func(*relay.Session, *balanceMove)) {
	if len(r.pending) == 0 {
		return
	}
	sessions := make([]*relay.Session, len(r.pending))
	moves := make(map[*relay.Session]*balanceMove, len(r.pending))
	for i := range r.pending {
		sessions[i], moves[r.pending[i].session] = r.pending[i].session, &r.pending[i]
	}
	r.jobs.sessions.Each(sessions, func(s *relay.Session) { f(s, moves[s]) })
}

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
	maps.DeleteFunc(r.active, func(id int, _ bool) bool { return left(id) }) // it may give sessions away although it no longer has too much
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
