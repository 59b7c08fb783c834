package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// wish is an operator's wish, or the rebalancer's, that another backend goes on with an assured session. The session carries it out at its
// next answered point, when no audio has to be sent again; from the time by on it does so by replay. Its backend works, so a wish never
// ends a session: if no other backend has a place, the session stays where it is. It is data, owned by the session's loop.
//
// Whoever wishes sets it ([Session.setWish]) and looks at it again and again ([wish.state]); the session says what came of it, and
// leaves that here until the next wish.
type wish struct {
	number uint64           // tells it from others; 0 for no wish
	cause  meter.Cause      // Drained, Ordered or Rebalanced
	to     *backend.Backend // the only one to go to; nil for any but the present one
	by     loop.Instant     // when it goes by replay, if no answered point has come; 0 for never

	// Set by the session.
	state    wishState
	why      string           // with wishRefused: why it stays
	arrived  *backend.Backend // with wishGranted
	replayed time.Duration    // with wishGranted: the audio that the next backend got again
}

// wishState is how far a session has come with a wish.
type wishState uint8

const (
	wishPending wishState = iota // it waits for its next answered point
	wishMoving                   // it has left its backend, or looks for a connection to another one
	wishGranted                  // another backend goes on with it
	wishRefused                  // it stays where it is, or has ended
)

// isOpen reports whether nobody knows yet what will come of the wish.
func (w *wish) isOpen() bool { return w.number != 0 && w.state <= wishMoving }

// setWish makes a wish, in place of an earlier one that is still pending. It returns why the session cannot be moved; empty if it can. It is
// called on the session's loop.
func (s *Session) setWish(w wish) (why string) {
	place, why := s.wishPlace()
	switch {
	case why != "":
		return why
	case !s.record.Ended.IsZero():
		return "the session is ending"
	case s.life.state != relaying:
		return "the session is " + s.life.state.String()
	case place.isOpen() && place.state == wishMoving:
		return "it is on its way to another backend already"
	case s.whyNotTo(w.to) != "":
		return s.whyNotTo(w.to)
	}
	*place = w
	s.considerWish()
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

// wishOf returns the session's wish of that number; nil if another one has replaced it, or the session has lost its assurance. It is called
// on the session's loop.
func (s *Session) wishOf(number uint64) *wish {
	if place, _ := s.wishPlace(); place != nil && place.number == number {
		return place
	}
	return nil
}

// withdrawWish takes a pending wish back. It is called on the session's loop.
func (s *Session) withdrawWish(number uint64) {
	if w := s.wishOf(number); w != nil && w.state == wishPending {
		s.failover.refuseWish("it was taken back")
	}
}

// wishPlace returns where the session's wish is kept, or why the session cannot be moved.
func (s *Session) wishPlace() (place *wish, why string) {
	f := s.failover
	switch {
	case f == nil || !s.record.Service.Failover:
		return nil, "its service has failover: off"
	case !f.assured:
		return nil, "the session is not assured: " + f.assurance().Why
	}
	return &f.wish, ""
}

// considerWish carries out the session's wish if it can be carried out now. It is called when a wish was made, and when its time has come.
func (s *Session) considerWish() {
	f := s.failover
	if s.life.state != relaying || f.wish.number == 0 {
		return
	}
	f.searchForWish()
	f.considerWish(false)
}

// searchForWish looks for the connection that the session is to move to. The session stays where it is until there is one.
func (f *failover) searchForWish() {
	s, w := f.session, &f.wish
	if w.state != wishPending || s.search != nil && s.search.wish == w.number {
		return
	}
	s.stopSearch()
	s.search = f.search(s.variant, profile.Opening{})
	s.search.wish = w.number
	if w.to != nil {
		s.search.waiter.Avoid, s.search.waiter.Only = nil, w.to.Pool()
	}
	if w.by != 0 {
		left := max(w.by.Until(), 1)
		s.search.until = s.search.until.Add(left)
		f.due.Set(s.client, left, timeWish)
	}
	s.startSearch()
}

// considerWish carries out the session's wish if there is a connection for it, and if the session is at an answered point or the wish's time
// has come.
func (f *failover) considerWish(answered bool) {
	s, w := f.session, &f.wish
	if s.search == nil || s.search.wish == 0 || s.search.conn == nil || s.life.state != relaying {
		return
	}
	if w.state != wishPending || w.number != s.search.wish { // it was taken back
		s.stopSearch()
		return
	}
	if f.replaying || !answered && f.window.Next() > f.window.First() && (w.by == 0 || w.by.Until() > 0) {
		return
	}
	w.state = wishMoving
	s.interrupted(w.cause, event{kind: backendLost, by: byProxy, class: meter.Normal, code: frame.GoingAway, reason: "moved to another backend"})
	if s.life.state != moving {
		why := "the session is ending"
		if f.inPeriod > maxMovesWithin {
			why = "it was moved too often"
		}
		f.refuseWish(why)
	}
}

// answeredPoint is called when something was answered for good.
func (f *failover) answeredPoint() {
	if f.wish.number != 0 {
		f.considerWish(true)
	}
}

// wishFound goes on with a connection that was found for the wish, while the session relays.
func (f *failover) wishFound(search *search, conn *backend.Conn) {
	search.conn = conn
	f.considerWish(false)
}

// grantWish notes that the session has moved as wished.
func (f *failover) grantWish(m *Move) {
	if w := &f.wish; w.state == wishMoving && w.number != 0 {
		w.state, w.arrived, w.replayed = wishGranted, f.session.record.Backend, m.Replayed
	}
	switch w := &f.wish; {
	case w.number == 0 || w.state != wishPending: // it has moved for another reason
	case w.to == nil || w.to == f.session.record.Backend:
		w.state, w.arrived, w.replayed = wishGranted, f.session.record.Backend, m.Replayed
	default:
		f.searchForWish()
		return
	}
	f.due.Stop()
}

// refuseWish notes why the session stays where it is.
func (f *failover) refuseWish(why string) {
	f.due.Stop()
	if f.wish.isOpen() {
		f.wish.state, f.wish.why = wishRefused, why
	}
	if s := f.session; s.search != nil && s.search.wish != 0 && s.life.state != moving {
		s.stopSearch()
	}
}
