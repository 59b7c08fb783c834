package session

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// What protects servers from sessions that kill them.
const (
	// A session moves at most maxMovesWithin times within movesPeriod.
	maxMovesWithin = 16
	movesPeriod    = 5 * time.Minute
	// Of servers in a row that failed within crashTime after they began to get the replay, and that answered nothing of it, the last one that a
	// session is moved from is number maxCrashes-1: its audio may be what crashes them.
	maxCrashes = 2
	crashTime  = 5 * time.Second
	// A connection that ends within atOnce may be one whose server has been dead for a while. But maxDead such servers in a row, with those that
	// failed later, are as good as crashed.
	atOnce  = 50 * time.Millisecond
	maxDead = 3
)

const (
	// replayTick is how often a replay goes on that is paced.
	replayTick = 20 * time.Millisecond
	// replayBurst is how much audio is sent at once.
	replayBurst = time.Second
)

// leaveServer acts on a server that cannot go on with the session, or must not: another one goes on, if it may. Otherwise e ends the session,
// or does nothing if the cause is a pending move.
func (s *Session) leaveServer(cause meter.Cause, e event) {
	if s.failover != nil {
		s.failover.interrupt(cause, &e)
	}
	if e.kind != interrupted && cause.Planned() {
		return
	}
	s.handle(e)
}

// interrupt makes e an event that moves the session, unless the session must not be moved. Then the reason says why, if the service
// keeps what clients send.
func (f *failover) interrupt(cause meter.Cause, e *event) {
	s := f.session
	if f.closing != nil || s.life.discardInput || s.life.state != relaying && s.life.state != completing || s.client.Ended() {
		return
	}
	if !cause.Planned() && f.tracker.LastWord(frame.AbnormalClosure) { // such as a message that says that the session has failed
		return
	}
	if !f.recoverable {
		if f.kept && !cause.Planned() && e.code == frame.InternalError {
			e.reason += "; not moved: " + f.why
		}
		return
	}
	now := loop.Now()
	if why := f.refuses(cause, e.code, now); why != "" {
		if !cause.Planned() {
			s.meter.FailedOver(cause, false)
			e.reason += "; " + why
		}
		return
	}
	f.judgeLost(false)
	s.leg.spared = cause == meter.Closed && s.leg.conn.FailsAtOnce(e.code)
	s.meter.Hold() // succeeds, since the session holds it
	f.lost = lost{
		backend: s.record.Backend, meter: s.meter, cause: cause, at: now, waits: true, unjudged: s.leg.spared,
		answered: f.tracker.Answered(), by: e.by, class: e.class, code: e.code, reason: e.reason,
	}
	e.closed = e.kind == backendClosed
	e.kind = interrupted
}

// refuses returns why the session must not be moved; empty if it may. It counts the move.
func (f *failover) refuses(cause meter.Cause, code frame.CloseCode, now loop.Instant) string {
	if f.period == 0 || now > f.period.After(movesPeriod) {
		f.period, f.inPeriod = now, 0
	}
	if f.inPeriod++; f.inPeriod > maxMovesWithin {
		return fmt.Sprintf("not moved: it was moved %d times within %v", maxMovesWithin, movesPeriod)
	}
	if cause.Planned() {
		return ""
	}
	if f.endsAlike(cause, code, now) {
		f.judgeLost(true)
		f.session.leg.alike = true
		return "another server has ended it in the same way"
	}
	switch {
	case f.legs > 1 && now < f.began.After(crashTime) && f.tracker.Answered() == f.lost.answered:
		if now > f.began.After(atOnce) {
			f.crashes++
		} else { // perhaps it was dead before, and nobody knew
			f.dead++
		}
	default:
		f.crashes, f.dead = 0, 0
	}
	if failed := f.crashes + f.dead; f.crashes >= maxCrashes || failed >= maxDead {
		return fmt.Sprintf("moved from %d servers that failed", failed)
	}
	return ""
}

// endsAlike reports whether the server closes the session as the one before it did, soon after it got the same from the client: it is the
// client's messages that servers take badly. A server that closes because it stops, or is full, does not.
func (f *failover) endsAlike(cause meter.Cause, code frame.CloseCode, now loop.Instant) bool {
	switch code {
	case frame.GoingAway, frame.ServiceRestart, frame.TryAgainLater:
		return false
	}
	return cause == meter.Closed && f.lost.cause == meter.Closed && f.lost.moved && f.lost.code == code && f.lost.backend != f.session.record.Backend && f.sent > 0 &&
		now < f.began.After(crashTime) && f.tracker.Answered() == f.lost.answered
}

// judgeLost counts that the server that was left ended the session, which was spared until it was known what the next one would do: it does
// alike, or goes on with the session, or there is none.
func (f *failover) judgeLost(alike bool) {
	if f.lost.unjudged {
		f.lost.unjudged = false
		f.lost.backend.SessionFailed(f.session.voter(), f.lost.code, alike)
	}
}

// leave prepares for another server: it ends the session's part on the present leg. The lease is about to end.
func (f *failover) leave(e *event) {
	s := f.session
	s.leg.conn.AddHeard(f.tracker.Heard())
	f.relayed.FramesFromBackends += s.leg.conn.Scanner.Frames - s.leg.framesBefore
	f.relayed.BytesFromBackends += s.leg.conn.Scanner.Bytes - s.leg.bytesBefore
	f.timer.Stop()
	f.down.reset()
	f.resent, f.replaying = nil, false
	if e.kind == interrupted {
		f.reached = max(f.reached, f.cursor)
	}
}

// search returns the search for the next server.
func (f *failover) search(variant string, first profile.Opening) *search {
	s := f.session
	limit := s.record.Service.QueueTimeout
	if f.recoverable { // nothing is lost meanwhile, and the client has nowhere else to go
		limit = max(limit, s.record.Service.MoveTimeout)
	}
	found := s.newSearch(variant, time.Now().Add(limit), first)
	if f.recoverable {
		found.waiter.Ahead, found.waiter.Avoid = true, s.record.Backend.Pool()
	}
	return found
}

// begin begins the session's part on a new leg. first is what the client has said on an earlier one, if the session is not recoverable.
func (f *failover) begin(conn *backend.Conn, first profile.Opening) {
	s := f.session
	f.legs++
	f.down.reset()
	f.sent = 0
	f.framesBefore += f.outgoing.Frames
	f.outgoing = frame.NewClientScanner(0)
	f.from, f.resent = 0, nil
	l := &s.leg
	l.down.scanner, l.up.scanner = nil, nil
	if f.streaming {
		l.up.scanner = &f.outgoing
	}
	if f.legs > 1 && f.recoverable {
		f.cursor = f.window.First()
		f.from = f.resumeAt()
	}
	f.tracker.Begin(profile.Leg{From: f.from, Heard: conn.Heard()})
	f.watchLeg()
	if f.legs == 1 {
		return
	}
	f.caughtUp = false
	f.began = loop.Now()
	if !f.recoverable { // the former server has said nothing
		f.caughtUp = true
		f.tracker.CaughtUp()
		if first.Opcode != 0 {
			f.sent = 1
			f.tracker.Sent(f.first)
		}
		return
	}
	f.replaying, f.leftAlone = true, true
	for op, payload := range f.tracker.Configuration() {
		f.resent = append(f.resent, configured{op, slices.Clone(payload)})
	}
	switch to := s.record.Backend.Name(); {
	case f.lost.backend == nil: // the first server would not serve it
	case f.lost.moved: // the next one would not, either
		f.moves[len(f.moves)-1].To = to
	default:
		f.lost.moved = true
		f.countMove(true)
		if len(f.moves) == maxMovesShown {
			f.moves = slices.Delete(f.moves, 0, 1)
		}
		f.moves = append(f.moves, Move{
			At: time.Now().Add(f.lost.at.Until()), From: f.lost.backend.Name(), To: to, Cause: f.lost.cause,
		})
		s.record.Moves++
		s.sayMoved()
	}
	f.fromServer(conn.TakeGreeting())
}

// resumeAt returns the first audio that the next server gets.
func (f *failover) resumeAt() profile.Position {
	answered := f.tracker.Answered()
	for number := f.cursor; number < f.window.Next(); number++ {
		e := f.window.Entry(number)
		if e.Kind != profile.EntryAudio || f.tracker.Done(e) {
			continue
		}
		if e.From >= answered || answered >= e.To {
			return e.From
		}
		buffer := messageBuffers.Get().(*[]byte)
		defer freeBuffer(buffer)
		_, *buffer = f.window.Payload(*buffer, number)
		if _, ok := f.tracker.Cut(nil, e, *buffer, answered); ok {
			return answered
		}
		return e.From
	}
	return f.tracker.Received()
}

// inPace reports whether an audio message may be sent now. Otherwise the replay goes on in a moment.
func (f *failover) inPace(e profile.Entry) bool {
	pace := f.session.record.Service.Profile.Failover().Pace
	if pace == 0 {
		return true
	}
	since := time.Duration(loop.Now() - f.began)
	may := f.tracker.Bytes(time.Duration(float64(since)*pace) + replayBurst)
	if sent := f.tracker.Delivered() - f.from; may == 0 || sent == 0 || int64(sent+e.To-max(e.From, f.from)) <= may {
		return true
	}
	f.timer.Set(f.session.client, replayTick, timeReplay)
	return false
}

// sentAll does what follows when the server has got something.
func (f *failover) sentAll() {
	s := f.session
	if s.life.state != relaying {
		return
	}
	if !f.caughtUp && len(f.resent) == 0 && f.cursor >= f.reached {
		f.caughtUp = true
		f.tracker.CaughtUp()
		f.noteMove()
	}
	if !f.atEnd() {
		return
	}
	f.replaying = false
	switch {
	case !f.recoverable && !f.streaming:
		f.stream()
	case f.recoverable:
		f.drop()
		f.checkAge()
	}
}

// noteMove logs a move, when the next server has got what the former one had.
func (f *failover) noteMove() {
	s := f.session
	s.life.turnedAway, s.life.tries = 0, 0
	if !f.lost.moved || f.lost.noted {
		return
	}
	f.lost.noted = true
	m := &f.moves[len(f.moves)-1]
	m.Replayed = f.tracker.Duration(int64(f.tracker.Delivered() - f.from))
	m.Took = time.Duration(loop.Now() - f.lost.at)
	f.completeMove(m)
	s.server.options.Log.Info("session moved", append(attrs(s.record.identity()),
		slog.String("from", m.From), slog.String("to", m.To), slog.String("cause", m.Cause.String()),
		slog.Duration("replayed", m.Replayed), slog.Duration("took", m.Took))...)
}

// countMove counts what came of a move, for the server that was left.
func (f *failover) countMove(moved bool) {
	if m := f.lost.meter; m != nil {
		m.FailedOver(f.lost.cause, moved)
		f.releaseMeter()
	}
}

// releaseMeter says that nothing more is counted of a move. f may be nil.
func (f *failover) releaseMeter() {
	if f != nil && f.lost.meter != nil {
		f.lost.meter.Release()
		f.lost.meter = nil
	}
}

// endAsLost makes the end of a search in vain the end that the session would have had without the search.
func (f *failover) endAsLost(e *event) {
	if f == nil || f.lost.backend == nil || f.lost.moved || e.class == meter.Shutdown {
		return
	}
	f.countMove(false)
	why := e.reason
	e.by, e.class, e.code, e.reason = f.lost.by, f.lost.class, f.lost.code, f.lost.reason
	if why != "" {
		e.reason += "; not moved: " + why
	}
}
