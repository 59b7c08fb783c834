package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// pendingMove is what the session itself knows of a pending move; the machine knows how far it has come ([failover.PendingMove]). It is owned by
// the session's loop. A move is ordered with [Session.OrderMove]; what has come of it is left here until the next one.
type pendingMove struct {
	to       *backend.Backend // the only one to go to; nil for any but the present one
	due      loop.Timer       // when it is carried out by replay
	arrived  *backend.Backend // where it has led, if it is done
	replayed time.Duration    // the audio that the next backend got again then
}

// OrderMove orders a move, to the backend to, or to any other if that is nil. An earlier one that is pending is forgotten. It returns why the
// session cannot be moved; empty if it can. It is called on the session's loop.
func (s *Session) OrderMove(m failover.PendingMove, to *backend.Backend) (why string) {
	switch why := s.whyUnmovable(); {
	case why != "":
		return why
	case !s.record.Ended.IsZero():
		return "the session is ending"
	case s.life.state != relaying:
		return "the session is " + s.life.state.String()
	case s.whyNotTo(to) != "":
		return s.whyNotTo(to)
	}
	f := s.failover
	if pending := f.machine.Pending(); pending.State != failover.MoveUnderWay {
		f.pending.to, f.pending.arrived, f.pending.replayed = to, nil, 0
	}
	e := failover.Event{Kind: failover.MoveOrdered, Move: m}
	f.happens(&e)
	if e.Why == "" {
		f.checkMove()
	}
	return e.Why
}

// WhyNotMovable returns why the session can never move to a backend, or to any other if that is nil; empty if it can. It is called on the
// session's loop.
func (s *Session) WhyNotMovable(to *backend.Backend) string {
	if why := s.whyUnmovable(); why != "" {
		return why
	}
	return s.whyNotTo(to)
}

// whyNotTo returns why the session can never move to a backend; empty if it can, and for nil, which is any other.
func (s *Session) whyNotTo(b *backend.Backend) string {
	switch {
	case b == nil:
	case b == s.record.Backend:
		return "backend " + b.Name() + " serves it already"
	case b.Group() != s.record.Backend.Group():
		return "backend " + b.Name() + " belongs to another service"
	}
	return ""
}

// whyUnmovable returns why the session cannot be moved to any backend; empty if it can.
func (s *Session) whyUnmovable() string {
	switch f := s.failover; {
	case f == nil || !s.record.Service.Failover:
		return "its service has failover: off"
	case !f.machine.Recoverable():
		return "the session is not recoverable: " + f.unrecoverable()
	}
	return ""
}

// MoveProgress is how far a session has come with a pending move.
type MoveProgress struct {
	failover.PendingMove
	Searches bool             // the session looks for a connection for the move
	Found    bool             // it has found one, which counts as a session there
	Arrived  *backend.Backend // where the move has led, with [failover.MoveDone]
	Replayed time.Duration    // the audio that the next backend got again, with [failover.MoveDone]
}

// MoveProgress returns how far the session's pending move of that number has come; ok is false if another order has replaced it, or the
// session is no longer recoverable. It is called on the session's loop.
func (s *Session) MoveProgress(number uint64) (m MoveProgress, ok bool) {
	if s.whyUnmovable() != "" {
		return m, false
	}
	f := s.failover
	if m.PendingMove = f.machine.Pending(); m.Number != number {
		return m, false
	}
	m.Searches, m.Found = s.searchesForMove(number)
	m.Arrived, m.Replayed = f.pending.arrived, f.pending.replayed
	return m, true
}

// WithdrawMove takes a pending move back, if that of this number is still pending. It is called on the session's loop.
func (s *Session) WithdrawMove(number uint64) {
	if _, ok := s.MoveProgress(number); ok {
		s.failover.happens(&failover.Event{Kind: failover.MoveWithdrawn})
	}
}

// searchesForMove reports whether the session looks for a connection for its pending move, and has found one.
func (s *Session) searchesForMove(number uint64) (searches, found bool) {
	if s.search == nil || s.search.pending != number {
		return false, false
	}
	return true, s.search.conn != nil
}

// ConsiderMove carries out the session's pending move if it can be carried out now. It is called on the session's loop when its
// time has come.
func (s *Session) ConsiderMove() {
	if f := s.failover; s.life.state == relaying {
		if pending := f.machine.Pending(); pending.State == failover.MovePending {
			f.searchForMove()
			f.checkMove()
		}
	}
}

// moveEvent returns an event of that kind, with what decides whether the session moves now.
func (f *recovery) moveEvent(kind failover.Kind) failover.Event {
	pending := f.machine.Pending()
	_, found := f.session.searchesForMove(pending.Number)
	return failover.Event{
		Kind: kind, Now: loop.Now(), Over: f.over(), Answered: f.tracker.Answered(),
		First: f.window.First(), Next: f.window.Next(), Configured: len(f.resent) == 0,
		Connected: found && pending.Number != 0, Arrived: f.pending.to == nil || f.pending.to == f.session.record.Backend,
	}
}

// checkMove carries out the pending move if there is a connection for it, and its moment has come.
func (f *recovery) checkMove() {
	if f.session.life.state == relaying {
		e := f.moveEvent(failover.MoveChecked)
		f.happens(&e)
	}
}

// moveFound continues with a connection that was found for the pending move, while the session relays.
func (f *recovery) moveFound(search *search, conn *backend.Conn) {
	search.conn = conn
	f.checkMove()
}

// searchForMove looks for the connection that the session is to move to. The session stays where it is until there is one.
func (f *recovery) searchForMove() {
	s, pending := f.session, f.machine.Pending()
	if searches, _ := s.searchesForMove(pending.Number); searches {
		return
	}
	s.stopSearch()
	s.search = f.search(s.variant, profile.Opening{})
	s.search.pending = pending.Number
	switch to := f.pending.to; {
	case to != nil:
		s.search.waiter.Avoid, s.search.waiter.Only = nil, to.Pool()
	case pending.Cause == meter.Aged: // a new connection to the same server is as good
		s.search.waiter.Avoid = nil
	}
	if pending.By != 0 {
		left := max(pending.By.Until(), 1)
		s.search.until = s.search.until.Add(left)
		f.pending.due.Set(s.client, left, timeMove)
	}
	s.startSearch()
}

// stopSearchForMove ends that, and leaves the search alone that a session without a server depends on.
func (f *recovery) stopSearchForMove() {
	f.pending.due.Stop()
	if s := f.session; s.search != nil && s.search.pending != 0 && s.life.state != moving {
		s.stopSearch()
	}
}

// leaveByOrder leaves the present backend for the pending move.
func (f *recovery) leaveByOrder() {
	e := event{by: byProxy, class: meter.Normal, code: frame.GoingAway, reason: "moved to another backend"}
	f.leaveWith(&e)
	f.session.handle(e)
}

// FreeToMove reports whether the session could be moved without need: it relays, no move of it is open, and it has stayed with its backend for
// at least the time rest if it has moved there. It is called on the session's loop.
func (s *Session) FreeToMove(rest time.Duration) bool {
	if s.whyUnmovable() != "" || s.life.state != relaying || !s.record.Ended.IsZero() {
		return false
	}
	moves, pending := s.failover.moves, s.failover.machine.Pending()
	return !pending.IsOpen() && (len(moves) == 0 || time.Since(moves[len(moves)-1].At) >= rest)
}
