package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// pendingMove is a move that an operator ordered, or the rebalancer, that another backend goes on with a recoverable session. The session carries it out at its
// next answered point, when no audio has to be sent again; from the time by on it does so by replay. Its backend works, so a pending move never
// ends a session: if no other backend has a place, the session stays where it is. It is data, owned by the session's loop.
//
// Who orders it sets it ([Session.orderMove]) and looks at it again and again ([pendingMove.state]); the session says what came of it, and
// leaves that here until the next one.
type pendingMove struct {
	number uint64           // tells it from others; 0 for no pending move
	cause  meter.Cause      // Drained, Ordered or Rebalanced
	to     *backend.Backend // the only one to go to; nil for any but the present one
	by     loop.Instant     // when it goes by replay, if no answered point has come; 0 for never

	// Set by the session.
	state    pendingMoveState
	why      string           // with moveRefused: why it stays
	arrived  *backend.Backend // with moveDone
	replayed time.Duration    // with moveDone: the audio that the next backend got again
}

// pendingMoveState is how far a session has come with a pending move.
type pendingMoveState uint8

const (
	movePending  pendingMoveState = iota // it waits for its next answered point
	moveUnderWay                         // it has left its backend, or looks for a connection to another one
	moveDone                             // another backend goes on with it
	moveRefused                          // it stays where it is, or has ended
)

// isOpen reports whether nobody knows yet what will come of the pending move.
func (w *pendingMove) isOpen() bool { return w.number != 0 && w.state <= moveUnderWay }

// orderMove makes a pending move, in place of an earlier one that is still pending. It returns why the session cannot be moved; empty if it can. It is
// called on the session's loop.
func (s *Session) orderMove(w pendingMove) (why string) {
	place, why := s.movePlace()
	switch {
	case why != "":
		return why
	case !s.record.Ended.IsZero():
		return "the session is ending"
	case s.life.state != relaying:
		return "the session is " + s.life.state.String()
	case place.isOpen() && place.state == moveUnderWay:
		return "it is on its way to another backend already"
	case s.whyNotTo(w.to) != "":
		return s.whyNotTo(w.to)
	}
	*place = w
	s.considerMove()
	return ""
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

// pendingMove returns the session's pending move of that number; nil if another one has replaced it, or the session is no longer recoverable. It is called
// on the session's loop.
func (s *Session) pendingMove(number uint64) *pendingMove {
	if place, _ := s.movePlace(); place != nil && place.number == number {
		return place
	}
	return nil
}

// withdrawMove takes a pending move back. It is called on the session's loop.
func (s *Session) withdrawMove(number uint64) {
	if w := s.pendingMove(number); w != nil && w.state == movePending {
		s.failover.refuseMove("it was taken back")
	}
}

// movePlace returns where the session's pending move is kept, or why the session cannot be moved.
func (s *Session) movePlace() (place *pendingMove, why string) {
	f := s.failover
	switch {
	case f == nil || !s.record.Service.Failover:
		return nil, "its service has failover: off"
	case !f.recoverable:
		return nil, "the session is not recoverable: " + f.recoverability().Why
	}
	return &f.pending, ""
}

// considerMove carries out the session's pending move if it can be carried out now. It is called when a pending move was made, and when its time has come.
func (s *Session) considerMove() {
	f := s.failover
	if s.life.state != relaying || f.pending.number == 0 {
		return
	}
	f.searchForMove()
	f.considerMove(false)
}

// searchForMove looks for the connection that the session is to move to. The session stays where it is until there is one.
func (f *failover) searchForMove() {
	s, w := f.session, &f.pending
	if w.state != movePending || s.search != nil && s.search.pending == w.number {
		return
	}
	s.stopSearch()
	s.search = f.search(s.variant, profile.Opening{})
	s.search.pending = w.number
	if w.to != nil {
		s.search.waiter.Avoid, s.search.waiter.Only = nil, w.to.Pool()
	}
	if w.by != 0 {
		left := max(w.by.Until(), 1)
		s.search.until = s.search.until.Add(left)
		f.due.Set(s.client, left, timeMove)
	}
	s.startSearch()
}

// considerMove carries out the session's pending move if there is a connection for it, and if the session is at an answered point or the pending move's time
// has come.
func (f *failover) considerMove(answered bool) {
	s, w := f.session, &f.pending
	if s.search == nil || s.search.pending == 0 || s.search.conn == nil || s.life.state != relaying {
		return
	}
	if w.state != movePending || w.number != s.search.pending { // it was taken back
		s.stopSearch()
		return
	}
	if f.replaying || !answered && f.window.Next() > f.window.First() && (w.by == 0 || w.by.Until() > 0) {
		return
	}
	w.state = moveUnderWay
	s.leaveServer(w.cause, event{kind: backendLost, by: byProxy, class: meter.Normal, code: frame.GoingAway, reason: "moved to another backend"})
	if s.life.state != moving {
		why := "the session is ending"
		if f.inPeriod > maxMovesWithin {
			why = "it was moved too often"
		}
		f.refuseMove(why)
	}
}

// answeredPoint is called when something was answered for good.
func (f *failover) answeredPoint() {
	if f.pending.number != 0 {
		f.considerMove(true)
	}
}

// moveFound goes on with a connection that was found for the pending move, while the session relays.
func (f *failover) moveFound(search *search, conn *backend.Conn) {
	search.conn = conn
	f.considerMove(false)
}

// completeMove notes that the session has moved as ordered.
func (f *failover) completeMove(m *Move) {
	if w := &f.pending; w.state == moveUnderWay && w.number != 0 {
		w.state, w.arrived, w.replayed = moveDone, f.session.record.Backend, m.Replayed
	}
	switch w := &f.pending; {
	case w.number == 0 || w.state != movePending: // it has moved for another reason
	case w.to == nil || w.to == f.session.record.Backend:
		w.state, w.arrived, w.replayed = moveDone, f.session.record.Backend, m.Replayed
	default:
		f.searchForMove()
		return
	}
	f.due.Stop()
}

// refuseMove notes why the session stays where it is.
func (f *failover) refuseMove(why string) {
	f.due.Stop()
	if f.pending.isOpen() {
		f.pending.state, f.pending.why = moveRefused, why
	}
	if s := f.session; s.search != nil && s.search.pending != 0 && s.life.state != moving {
		s.stopSearch()
	}
}
