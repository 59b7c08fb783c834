package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
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
func (s *Sessions) startRebalancing(services []*route.Service) {
	wanted := false
	for _, v := range services {
		wanted = wanted || v.Rebalance
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !wanted || s.rebalances || s.closed {
		return
	}
	s.rebalances = s.pending.Go(func() { s.rebalance(s.closing) })
}

// rebalance evens out the loads of services until ctx ends.
func (s *Sessions) rebalance(ctx context.Context) {
	ticker := time.NewTicker(rebalanceTick)
	defer ticker.Stop()
	running := make(map[string]*rebalancing)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.rebalanceOnce(running)
	}
}

// rebalanceOnce does one step for each service that wants it. After a mistake, the next second goes on.
func (s *Sessions) rebalanceOnce(running map[string]*rebalancing) {
	defer s.options.Guard.Recover("rebalancing", nil)
	present := make(map[string]bool)
	for _, v := range s.routes.Load().ByName {
		if !v.Rebalance || !v.Failover {
			continue
		}
		present[v.Name] = true
		r := running[v.Name]
		if r == nil || r.group != v.Group {
			r = newRebalancing(s, v.Group)
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

// rebalancing evens out the load of one service. The goroutine of Server.rebalance owns it.
type rebalancing struct {
	*rebalancer
	server  *Sessions
	group   *pool.Group[*backend.Conn]        // static
	ids     map[*pool.Pool[*backend.Conn]]int // of the backends that the service has or had at the last step
	lastID  int
	pending []balanceMove // that are open
}

// balanceMove is a pending move that a session moves.
type balanceMove struct {
	session  *Session
	number   uint64
	from, to int // backends
	since    time.Duration
	holds    bool // the session has a connection to the other backend already, which counts as a session there
}

func newRebalancing(s *Sessions, group *pool.Group[*backend.Conn]) *rebalancing {
	return &rebalancing{
		rebalancer: newRebalancer(uint64(time.Now().UnixNano())), server: s, group: group,
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
func (r *rebalancing) candidates(wanted map[int][]int) map[int][]*Session {
	all, _ := r.server.registry.all()
	candidates := make(map[int][]*Session)
	r.server.each(all, func(s *Session) {
		if s.record.Backend == nil || s.record.Backend.Group() != r.group {
			return
		}
		if from := r.id(s.record.Backend.Pool()); wanted[from] != nil && s.mayBeRebalanced() {
			candidates[from] = append(candidates[from], s)
		}
	})
	return candidates
}

// mayBeRebalanced reports whether the session may move to even out the load. It is called on the session's loop.
func (s *Session) mayBeRebalanced() bool {
	if s.whyNotMovable() != "" || s.life.state != relaying || !s.record.Ended.IsZero() {
		return false
	}
	moves, pending := s.failover.moves, s.failover.machine.Pending()
	return !pending.IsOpen() && (len(moves) == 0 || time.Since(moves[len(moves)-1].At) >= restTime)
}

// order has a session move at its next answered point.
func (r *rebalancing) order(session *Session, now time.Duration, from, to int, target *backend.Backend) {
	number := r.server.moveJobs.next()
	r.server.each([]*Session{session}, func(s *Session) {
		if s.mayBeRebalanced() && s.orderMove(failover.PendingMove{Number: number, Cause: meter.Rebalanced}, target) == "" {
			r.pending = append(r.pending, balanceMove{session: s, number: number, from: from, to: to, since: now})
		}
	})
}

// review forgets the pending moves that are fulfilled or refused, and takes back those that have taken too long.
func (r *rebalancing) review(now time.Duration) {
	open := make(map[uint64]bool, len(r.pending))
	r.visit(func(s *Session, w *balanceMove) {
		if move, ok := s.pendingMove(w.number); ok && move.IsOpen() && s.record.Ended.IsZero() {
			open[w.number] = true
			_, w.holds = s.searchesForMove(w.number)
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
	r.visit(func(s *Session, w *balanceMove) {
		if matches(w) {
			s.withdrawMove(w.number)
		}
	})
}

// visit calls f with the session of each pending move, on its loop.
func (r *rebalancing) visit(f func(*Session, *balanceMove)) {
	if len(r.pending) == 0 {
		return
	}
	sessions := make([]*Session, len(r.pending))
	moves := make(map[*Session]*balanceMove, len(r.pending))
	for i := range r.pending {
		sessions[i], moves[r.pending[i].session] = r.pending[i].session, &r.pending[i]
	}
	r.server.each(sessions, func(s *Session) { f(s, moves[s]) })
}
