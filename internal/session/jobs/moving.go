package jobs

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// MoveOrder is an operator's order to move sessions to other backends, and what has come of it so far.
type MoveOrder struct {
	Backend  string    // that the sessions leave; empty for an order about one session
	Begun    time.Time // when it was given
	Deadline time.Time // from when on sessions move by replay instead of waiting for an answered point
	Done     bool      // nothing more will come of it
	Replaced bool      // a later order about the same backend or session took its place
	Sessions []OrderedMove
}

// OrderedMove is what has come of an order for one session.
type OrderedMove struct {
	ID    record.ID
	State MoveState
	To    string // the backend that serves it now, with Moved
	Why   string // why it has not moved, unless State is Moved
	// Replayed is how much audio the next backend got again, with Moved.
	Replayed time.Duration
}

// MoveState is how far an order has come with a session.
type MoveState uint8

// The states.
const (
	MovePending  MoveState = iota // it waits for its next answered point, or for a place
	MoveUnderway                  // it is on its way
	Moved                         // another backend serves it
	MoveRefused                   // it stays where it is
	MoveEnded                     // it has ended by itself meanwhile
)

// String returns the state's name in the admin API.
func (m MoveState) String() string {
	return [...]string{"waiting", "moving", "moved", "not_moved", "ended"}[m]
}

const (
	// moveTick is how often an order looks after its sessions.
	moveTick = 50 * time.Millisecond
	// moveRescan is how often it looks for sessions that have begun at the backend since.
	moveRescan = time.Second
	// moveGrace is for how long after its deadline an order tries to move sessions for which there was no place.
	moveGrace = 10 * time.Second
	// moveHardGrace is how long after that it waits for those on their way.
	moveHardGrace = 2 * time.Minute
	// maxMoveJobs is how many completed orders are remembered.
	maxMoveJobs = 64
)

// moveJobs are the orders to move sessions.
type moveJobs struct {
	mu     sync.Mutex
	all    map[string]*moveJob // guarded by mu: by what they are about, see moveJob.about
	number uint64              // guarded by mu: of the last pending move
}

// next returns the number of a new pending move.
func (m *moveJobs) next() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number++
	return m.number
}

// moveJob is an order to move sessions. A goroutine of its own carries it out.
type moveJob struct {
	// Static.
	jobs    *Jobs
	about   string           // a backend's name, or a session's id
	backend string           // that the sessions leave; empty for an order about one session
	left    *backend.Backend // with MoveAway: the same; nil otherwise
	to      *backend.Backend // the only one to go to; nil for any other
	cause   meter.Cause
	begun   time.Time
	by      time.Time
	byLoop  loop.Instant
	cancel  context.CancelFunc

	mu       sync.Mutex
	sessions []movedSession // guarded by mu; appended to and changed by the goroutine only
	done     bool           // guarded by mu
	replaced bool           // guarded by mu
}

// movedSession is one session of an order.
type movedSession struct {
	OrderedMove
	from    *backend.Backend // static
	pending uint64           // the number of the pending move that is open; 0 for none
}

func (m *movedSession) isOpen() bool { return m.State <= MoveUnderway }

// MoveBackend moves the recoverable sessions that a backend serves to other backends of its service, each at its next answered point, and those
// that have not come to one within timeout by replay. No more move at a time than there are places elsewhere. It returns at once;
// BackendMoveOrder tells what comes of it. It replaces an order about the same backend that is not completed, and Close cancels it. The
// backend should get no new sessions: those that begin there meanwhile are moved, too. It must not be called on a loop.
func (j *Jobs) MoveBackend(name string, timeout time.Duration) MoveOrder {
	o := &moveJob{jobs: j, about: name, backend: name, cause: meter.Drained}
	o.rescan()
	return j.order(o, timeout)
}

// MoveAway is MoveBackend for a backend that was removed from its service: the order ends when the backend is back there, and it is about no other
// of the same name.
func (j *Jobs) MoveAway(b *backend.Backend, timeout time.Duration) {
	o := &moveJob{jobs: j, about: b.Name(), backend: b.Name(), left: b, cause: meter.Drained}
	o.rescan()
	j.order(o, timeout)
}

// MoveSession moves one session as MoveBackend does, to the backend to, or to any other if that is nil. ok is false if there is no such
// session.
func (j *Jobs) MoveSession(id record.ID, to *backend.Backend, timeout time.Duration) (m MoveOrder, ok bool) {
	o := &moveJob{jobs: j, about: id.String(), to: to, cause: meter.Ordered}
	if session := j.sessions.Find(id); session != nil {
		j.sessions.Each([]*relay.Session{session}, func(session *relay.Session) {
			o.sessions = append(o.sessions, movedSession{OrderedMove: OrderedMove{ID: id}, from: session.Record().Backend})
		})
	}
	if len(o.sessions) == 0 {
		return m, false
	}
	return j.order(o, timeout), true
}

// reliefWait is how long a session that leaves a backend whose results are late waits for an answered point.
const reliefWait = 2 * time.Second

// Relieve moves the session whose results come latest on a backend to another one, by replay if it comes to no answered point soon. It must not be
// called on a loop.
func (j *Jobs) Relieve(from, to *backend.Backend) {
	o := &moveJob{jobs: j, to: to, cause: meter.Rebalanced}
	latest := time.Duration(0)
	j.sessions.Each(j.sessions.All(), func(s *relay.Session) {
		if s.Record().Backend != from || !s.FreeToMove(restTime) {
			return
		}
		if late := s.Late(); late > latest {
			id := s.Record().ID
			latest, o.about = late, id.String()
			o.sessions = []movedSession{{OrderedMove: OrderedMove{ID: id}, from: from}}
		}
	})
	if len(o.sessions) > 0 {
		j.order(o, reliefWait)
	}
}

// BackendMoveOrder returns the last order to move the sessions of a backend; ok is false if there was none.
func (j *Jobs) BackendMoveOrder(name string) (m MoveOrder, ok bool) { return j.moveJobs.find(name) }

// SessionMoveOrder returns the last order to move a session; ok is false if there was none.
func (j *Jobs) SessionMoveOrder(id record.ID) (m MoveOrder, ok bool) {
	return j.moveJobs.find(id.String())
}

func (m *moveJobs) find(about string) (MoveOrder, bool) {
	m.mu.Lock()
	o := m.all[about]
	m.mu.Unlock()
	if o == nil {
		return MoveOrder{}, false
	}
	return o.describe(), true
}

// describe returns a copy of what has come of the order so far.
func (o *moveJob) describe() MoveOrder {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := MoveOrder{Backend: o.backend, Begun: o.begun, Deadline: o.by, Done: o.done, Replaced: o.replaced, Sessions: make([]OrderedMove, len(o.sessions))}
	for i := range o.sessions {
		m.Sessions[i] = o.sessions[i].OrderedMove
	}
	return m
}

// order starts to carry out an order, in place of one about the same backend or session.
func (j *Jobs) order(o *moveJob, timeout time.Duration) MoveOrder {
	o.begun = time.Now()
	o.by, o.byLoop = o.begun.Add(timeout), loop.Now()+loop.Instant(timeout)
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(j.closing)
	if before := j.moveJobs.add(o); before != nil {
		before.replace()
	}
	started := j.pending.Go(func() {
		defer j.guard.Recover("moving sessions", nil)
		defer o.finish()
		o.run(ctx)
	})
	if !started { // the server has closed
		o.finish()
	}
	return o.describe()
}

// add remembers an order, and returns the one that it replaces, if any. It forgets completed orders beyond maxMoveJobs, oldest first.
func (m *moveJobs) add(o *moveJob) (before *moveJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(map[string]*moveJob)
	}
	before, m.all[o.about] = m.all[o.about], o
	if len(m.all) > maxMoveJobs {
		byAge := slices.SortedFunc(maps.Values(m.all), func(a, b *moveJob) int { return a.begun.Compare(b.begun) })
		for _, old := range byAge {
			if old.isDone() {
				delete(m.all, old.about)
				break
			}
		}
	}
	return before
}

func (o *moveJob) isDone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done
}

func (o *moveJob) replace() {
	o.mu.Lock()
	o.replaced = !o.done
	o.mu.Unlock()
	o.cancel()
}

// finish closes the order: what is still open has not moved.
func (o *moveJob) finish() {
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.sessions {
		if m := &o.sessions[i]; m.isOpen() {
			m.State = MoveRefused
			if m.Why == "" {
				m.Why = "the order was cancelled"
			}
		}
	}
	o.done = true
}

// rescan adds the sessions that the backend serves now and that the order does not know.
func (o *moveJob) rescan() {
	known := make(map[uint64]bool, len(o.sessions))
	for i := range o.sessions {
		known[o.sessions[i].ID.Number] = true
	}
	var more []movedSession
	o.jobs.sessions.Each(o.jobs.sessions.All(), func(session *relay.Session) {
		r := session.Record()
		if r.Ended.IsZero() && !known[r.ID.Number] && r.Backend != nil && o.isLeft(r.Backend) {
			more = append(more, movedSession{OrderedMove: OrderedMove{ID: r.ID}, from: r.Backend})
		}
	})
	o.mu.Lock()
	o.sessions = append(o.sessions, more...)
	o.mu.Unlock()
}

// isLeft reports whether the sessions of a backend are to leave it.
func (o *moveJob) isLeft(b *backend.Backend) bool {
	return b == o.left || o.left == nil && backend.Matches(b.Name(), o.backend)
}

// isBack reports whether the backend belongs to its service again.
func (o *moveJob) isBack() bool {
	if o.left == nil {
		return false
	}
	loads, _ := o.left.Group().Loads()
	return slices.ContainsFunc(loads, func(l pool.Load[*backend.Conn]) bool { return l.Pool == o.left.Pool() })
}

// run looks after the sessions until nothing is open, the backend is back, or ctx ends.
func (o *moveJob) run(ctx context.Context) {
	ticker := time.NewTicker(moveTick)
	defer ticker.Stop()
	scanned := o.begun
	for ctx.Err() == nil && !o.isBack() {
		now := time.Now()
		if o.backend != "" && now.Sub(scanned) >= moveRescan {
			o.rescan()
			scanned = now
		}
		if open := o.advance(now); open == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	o.visit(func(session *relay.Session, m *movedSession) {
		session.WithdrawMove(m.pending)
		if ctx.Err() == nil {
			m.Why = "its backend is back"
		}
	})
}

// advance does what there is to do for each session that is open, and returns how many still are.
func (o *moveJob) advance(now time.Time) (open int) {
	late := now.After(o.by.Add(moveGrace))
	room := o.room()
	for i := range o.sessions {
		if m := &o.sessions[i]; m.isOpen() && m.pending != 0 {
			room[m.from]--
		}
	}
	found := o.visit(func(session *relay.Session, m *movedSession) { o.look(session, m, room, late) })
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.sessions {
		m := &o.sessions[i]
		if m.isOpen() && !found[m.ID.Number] {
			o.ended(m)
		}
		if m.isOpen() && now.After(o.by.Add(moveGrace+moveHardGrace)) {
			m.State, m.Why = MoveRefused, "it did not move in time"
		}
		if m.isOpen() {
			open++
		}
	}
	return open
}

// visit calls f with each session that is open, on its loop, and returns the numbers of those that there are.
func (o *moveJob) visit(f func(*relay.Session, *movedSession)) (found map[uint64]bool) {
	found = make(map[uint64]bool, len(o.sessions))
	entries := make(map[*relay.Session]*movedSession, len(o.sessions))
	var list []*relay.Session
	for i := range o.sessions { // which nothing else changes
		m := &o.sessions[i]
		if !m.isOpen() {
			continue
		}
		if session := o.jobs.sessions.Find(m.ID); session != nil {
			found[m.ID.Number] = true
			entries[session] = m
			list = append(list, session)
		}
	}
	o.jobs.sessions.Each(list, func(session *relay.Session) {
		entry := entries[session]
		m := *entry
		f(session, &m) // without the lock, since it may write to sockets
		o.mu.Lock()
		defer o.mu.Unlock()
		*entry = m
	})
	return found
}

// look does the next step with one session. room has the places that are left for sessions of each backend. It is called on the session's loop.
func (o *moveJob) look(session *relay.Session, m *movedSession, room map[*backend.Backend]int, late bool) {
	if !session.Record().Ended.IsZero() {
		m.State, m.Why = MoveEnded, "the session has ended"
		return
	}
	if m.pending != 0 {
		move, ok := session.MoveProgress(m.pending)
		switch {
		case !ok: // another order has replaced it, or it is no longer recoverable: OrderMove says which
			m.pending = 0
		case move.State == failover.MoveDone:
			m.State, m.To, m.Replayed, m.Why = Moved, move.Arrived.Name(), move.Replayed, ""
			return
		case move.State == failover.MoveRefused:
			m.pending, m.Why, m.State = 0, move.Why, MovePending
			if late {
				m.State = MoveRefused
			}
			return // it is tried again the next time
		case move.State == failover.MoveUnderWay:
			m.State = MoveUnderway
			return
		case late:
			m.State, m.Why = MoveRefused, "it did not come to an answered point in time"
			if move.Searches && !move.Found {
				m.Why = o.noPlace()
			}
			session.WithdrawMove(m.pending)
			return
		default:
			m.State = MovePending
			if loop.Now() >= o.byLoop {
				session.ConsiderMove()
			}
			return
		}
	}
	switch {
	case session.Record().Backend != m.from && session.Relaying(): // its backend has failed, say
		m.State, m.To, m.Why = Moved, session.Record().Backend.Name(), ""
	case session.Moving():
		m.State = MoveUnderway
	case room[m.from] <= 0:
		m.State, m.Why = MovePending, o.noPlace()
		if why := session.WhyNotMovable(o.to); why != "" {
			m.State, m.Why = MoveRefused, why
		} else if late {
			m.State = MoveRefused
		}
	default:
		number := o.jobs.moveJobs.next()
		why := session.OrderMove(failover.PendingMove{Number: number, Cause: o.cause, By: o.byLoop}, o.to)
		if why != "" {
			m.State, m.Why = MoveRefused, why
			return
		}
		m.State, m.pending, m.Why = MovePending, number, "it waits for its next answered point"
		room[m.from]--
	}
}

// ended notes that a session has ended meanwhile, perhaps right after it was moved. It is called with mu held.
func (o *moveJob) ended(m *movedSession) {
	m.State, m.Why = MoveEnded, "the session has ended"
	if r, ok := o.jobs.sessions.EndedSession(m.ID); ok && r.Backend != nil && r.Backend != m.from {
		m.State, m.To, m.Why = Moved, r.Backend.Name(), ""
	}
}

// noPlace says why a session does not move although it could.
func (o *moveJob) noPlace() string {
	if o.to != nil {
		return "backend " + o.to.Name() + " takes no more sessions at present"
	}
	return "no other backend of the service has a free place"
}

// room returns how many sessions of each backend of the order could be served elsewhere now.
func (o *moveJob) room() map[*backend.Backend]int {
	room := make(map[*backend.Backend]int)
	for i := range o.sessions {
		from := o.sessions[i].from
		if _, known := room[from]; known || !o.sessions[i].isOpen() {
			continue
		}
		room[from] = placesBeside(from, o.to)
	}
	return room
}

// mostAsked is how many sessions of an order wait at a time for places that other proxies may have to give back.
const mostAsked = 4

// placesBeside returns how many sessions of a backend others of its service could serve; to, if not nil, is the only other that counts. If this
// proxy has no place there, a few may wait for one: only for clients that wait are places granted. They do not push in before others.
func placesBeside(from, to *backend.Backend) (places int) {
	loads, waiting := from.Group().Loads()
	grantable := 0
	for i := range loads {
		if isOther(&loads[i], from, to) {
			places += loads[i].Free
			grantable += loads[i].Grantable
		}
	}
	if places == 0 && waiting == 0 {
		return min(grantable, mostAsked)
	}
	return places
}

func isOther(l *pool.Load[*backend.Conn], from, to *backend.Backend) bool {
	return l.Pool != from.Pool() && (to == nil || l.Pool == to.Pool())
}
