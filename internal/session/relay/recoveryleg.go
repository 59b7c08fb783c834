package relay

import (
	"log/slog"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// replayTick is how often a replay continues that is paced.
	replayTick = 20 * time.Millisecond
	// replayBurst is how much audio is sent without a pause.
	replayBurst = time.Second
)

// configured is a message that configures the present server, as others were.
type configured struct {
	op      frame.Opcode
	payload []byte
}

// leaveServer makes e an event that moves the session, if another server may continue it. Otherwise its reason says why none may, if the
// service keeps what clients send.
func (f *recovery) leaveServer(cause meter.Cause, e *event) {
	s := f.session
	failed := failover.Event{
		Kind: failover.ServerFailed, Now: loop.Now(), Cause: cause, Code: e.code, Over: f.over(), Answered: f.tracker.Answered(),
		LastWord:   f.tracker.LastWord(frame.AbnormalClosure),
		SameServer: f.left.backend == s.record.Backend, Sent: f.sent > 0, Spared: cause == meter.Closed && s.leg.conn.FailsAtOnce(e.code),
	}
	f.happens(&failed)
	if f.machine.State() == failover.Left {
		f.leaveWith(e)
	} else if failed.Why != "" {
		e.reason += "; " + failed.Why
	}
}

// over reports whether the session needs no other server.
func (f *recovery) over() bool {
	s := f.session
	return s.isLeaving() || s.life.discardInput || s.life.state != relaying && s.life.state != completing || s.client.Ended()
}

// leaveWith makes e an event that moves the session, and notes how e would have ended it.
func (f *recovery) leaveWith(e *event) {
	s := f.session
	s.meter.Hold() // succeeds, since the session holds it
	at, cause := f.machine.Left()
	f.left = left{backend: s.record.Backend, meter: s.meter, at: at, cause: cause, by: e.by, class: e.class, code: e.code, reason: e.reason}
	e.closed = e.kind == backendClosed
	e.kind = interrupted
}

// leave prepares for another server: it ends the session's part on the present leg. The lease is about to end.
func (f *recovery) leave(e *event) {
	s := f.session
	s.leg.conn.AddHeard(f.tracker.Heard())
	s.endAccount()
	f.relayed.FramesFromBackends += s.leg.conn.Scanner.Frames - s.leg.framesBefore
	f.relayed.BytesFromBackends += s.leg.conn.Scanner.Bytes - s.leg.bytesBefore
	f.timer.Stop()
	f.leaving.Stop()
	f.down.reset()
	f.resent = nil
	if e.kind != interrupted {
		f.happens(&failover.Event{Kind: failover.ServerRefused})
	}
}

// search returns the search for the next server.
func (f *recovery) search(variant string, first profile.Opening) *search {
	s := f.session
	limit := s.record.Service.QueueTimeout
	if f.machine.Recoverable() { // nothing is lost meanwhile, and the client has nowhere else to go
		limit = max(limit, s.record.Service.MoveTimeout)
	}
	found := s.newSearch(variant, time.Now().Add(limit), first)
	if f.machine.Recoverable() {
		found.waiter.Ahead, found.waiter.Avoid = true, s.record.Backend.Pool()
	}
	return found
}

// begin begins the session's part on a new leg. first is what the client has said on an earlier one, if the session is not recoverable and gets no
// replay.
func (f *recovery) begin(conn *backend.Conn, first profile.Opening) {
	s := f.session
	f.down.reset()
	f.sent = 0
	f.framesBefore += f.outgoing.Frames
	f.outgoing = frame.NewClientScanner(0)
	f.resent, f.partial = nil, 0
	s.leg.down.scanner, s.leg.up.scanner = nil, nil
	if f.machine.Streams() {
		s.leg.up.scanner = &f.outgoing
	}
	began := failover.Event{Kind: failover.LegBegan, Now: loop.Now(), First: f.window.First()}
	var space [4]failover.Action
	do := f.machine.Handle(&began, space[:0])
	again := f.machine.Resumes()
	if again { // otherwise nothing of the client's audio has got to the server before it
		f.from = f.resumeAt()
	}
	f.tracker.Begin(profile.Leg{From: f.from, Heard: conn.Heard()})
	f.watchLeg()
	f.beginLifetime(conn)
	f.perform(do, &began)
	switch {
	case again:
		f.fromServer(conn.TakeGreeting())
		if s.holds(conn) {
			f.loseAgain()
		}
	case f.machine.Legs() > 1 && first.Opcode != 0: // the server before it has said nothing
		f.sent = 1
		f.tracker.Sent(f.first)
	}
}

// replay prepares what the present server gets before what is kept.
func (f *recovery) replay() {
	for op, payload := range f.tracker.Configuration() {
		f.resent = append(f.resent, configured{op, slices.Clone(payload)})
	}
}

// resumeAt returns the first audio that the next server gets.
func (f *recovery) resumeAt() profile.Position {
	answered := f.tracker.Answered()
	for number := f.machine.Cursor(); number < f.window.Next(); number++ {
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

// pump sends the server what it has not got, as far as it takes that now.
func (f *recovery) pump() {
	s := f.session
	if f.pumping {
		return
	}
	if s.leg.conn == nil { // it moves, and what the client sends waits
		f.countWaiting()
		return
	}
	f.pumping = true
	for {
		for f.maySend() && f.sendNext() { //nolint:revive // all is done in the condition
		}
		if f.sentAll(); !f.atEnd() || len(f.rest) == 0 || !f.maySend() {
			break
		}
		rest := f.rest
		f.rest = nil
		n := f.take(rest)
		f.rest = append(f.rest, rest[n:]...)
		if n == 0 && f.atEnd() {
			break
		}
	}
	f.pumping = false
	f.countWaiting()
	f.regulate()
	if f.closing != nil && s.life.state == relaying && f.atEnd() && len(f.rest) == 0 {
		f.closeNow()
	}
}

// sendNext sends the next message that is kept. It returns false if there is none, or if it has to wait.
func (f *recovery) sendNext() bool {
	if len(f.resent) > 0 {
		c := f.resent[0]
		return f.present(profile.Entry{Kind: profile.EntryConfiguration}, c.op, c.payload, -1)
	}
	if f.machine.Cursor() == f.window.Next() {
		return false
	}
	e := f.window.Entry(f.machine.Cursor())
	switch {
	case !f.tracker.Resend(e):
		f.machine.Advance()
		return true
	case f.machine.Replays() && e.Kind == profile.EntryAudio && !f.inPace(e):
		return false
	}
	cut := e.Kind == profile.EntryAudio && e.From < f.from && f.from < e.To
	if !cut && f.inspected() == 0 {
		f.sendKept(e)
		return true
	}
	buffer := messageBuffers.Get().(*[]byte)
	defer freeBuffer(buffer)
	op, payload := f.window.Payload(*buffer, f.machine.Cursor())
	*buffer = payload
	if !cut {
		if f.inspected()&(1<<op) == 0 {
			f.sendKept(e)
			return true
		}
		return f.present(e, op, payload, f.machine.Cursor())
	}
	shorter, _ := f.tracker.Cut(nil, e, payload, f.from) // it could be cut when the leg began
	e.From = f.from
	return f.present(e, op, shorter, -1)
}

// sendKept sends the message at the cursor, with that entry, as it came.
func (f *recovery) sendKept(e profile.Entry) {
	number := f.machine.Cursor()
	f.advance()
	f.insertNow()
	f.window.Pieces(number, f.write)
	f.tracker.Sent(e)
}

// advance notes that a message goes to the server.
func (f *recovery) advance() {
	f.sent++
	if len(f.resent) > 0 {
		f.resent = f.resent[1:]
	} else {
		f.machine.Advance()
	}
}

// insertNow sends the control frames that wait, before a message.
func (f *recovery) insertNow() { f.session.leg.up.insertNow() }

// write sends the server frames, or a piece of them.
func (f *recovery) write(raw []byte) {
	if d := &f.session.leg.up; !d.closed {
		d.to.Write(raw)
	}
}

// present presents a whole message to the boundary, and sends it if the boundary says so: the frames of the kept message of that number,
// or a new frame if it is negative. It returns false if the message has to wait.
func (f *recovery) present(e profile.Entry, op frame.Opcode, payload []byte, number int64) bool {
	s := f.session
	conn := s.leg.conn
	b := conn.Boundary()
	var step profile.Step
	if b.Inspect(profile.FromClient)&(1<<op) != 0 {
		step = b.Frame(profile.FromClient, op, int64(len(payload)), true)
		if step.Pass == profile.Keep {
			s.tapStep(step)
			s.act(step)
			return false
		}
		if step.Feed {
			if s.act(step); !s.holds(conn) {
				return false
			}
			step = b.Feed(profile.FromClient, payload, 0, true)
		}
		s.tapStep(step)
	}
	f.advance()
	switch {
	case step.Pass == profile.Relay || step.Pass == profile.Release:
		if number >= 0 {
			f.insertNow()
			f.window.Pieces(number, f.write)
		} else {
			s.sendUp(op, payload, true)
		}
		f.tracker.Sent(e)
	case step.Then == profile.Replaced:
		f.tracker.Sent(e)
	}
	s.act(step)
	return s.holds(conn)
}

// tapStep shows what the boundary makes of a whole message of the client.
func (s *Session) tapStep(step profile.Step) {
	s.tap.ClientStep(step, []byte{}, true)
}

// sentNow returns how far the client's frames have got to the present server.
func (f *recovery) sentNow() sent {
	return sent{
		messages: f.sent + f.outgoing.Messages, midMessage: !f.outgoing.AtMessageBoundary(), midFrame: !f.outgoing.AtFrameBoundary(),
	}
}

// atEnd reports whether the present server has got everything that is kept.
func (f *recovery) atEnd() bool { return f.machine.Cursor() == f.window.Next() && len(f.resent) == 0 }

// maySend reports whether the server may be sent something now.
func (f *recovery) maySend() bool {
	s := f.session
	return s.life.state == relaying && !s.leg.hold && s.leg.first == nil && !s.leg.up.to.Stalled()
}

// inspected returns the kinds of messages that the boundary inspects now.
func (f *recovery) inspected() frame.Kinds {
	return f.session.leg.conn.Boundary().Inspect(profile.FromClient)
}

// inPace reports whether an audio message may be sent now. Otherwise the replay continues in a moment.
func (f *recovery) inPace(e profile.Entry) bool {
	pace := f.session.record.Service.Profile.Failover().Pace
	if pace == 0 {
		return true
	}
	sent := f.tracker.Delivered() - f.from
	if sent == 0 { // what came before, such as a wait until the server is ready, is no time to make up for
		f.paced = loop.Now()
		return true
	}
	since := time.Duration(loop.Now() - f.paced)
	may := f.tracker.Bytes(time.Duration(float64(since)*pace) + replayBurst)
	if may == 0 || int64(sent+e.To-max(e.From, f.from)) <= may {
		return true
	}
	f.timer.Set(f.session.client, replayTick, timeReplay)
	return false
}

// sentAll does what follows when the server has got something.
func (f *recovery) sentAll() {
	s := f.session
	if s.life.state != relaying {
		return
	}
	if f.machine.Behind() {
		e := f.moveEvent(failover.Progressed)
		f.happens(&e)
	}
	if f.machine.State() == failover.Live && f.atEnd() {
		f.drop()
		f.checkAge()
	}
}

// recordMove records that another server continues the session.
func (f *recovery) recordMove() {
	if len(f.moves) == failover.MovesShown {
		f.moves = slices.Delete(f.moves, 0, 1)
	}
	f.moves = append(f.moves, Move{
		At: time.Now().Add(f.left.at.Until()), From: f.left.backend.Name(), To: f.session.record.Backend.Name(), Cause: f.left.cause,
	})
	f.session.record.Moves++
	f.session.sayMoved()
}

// noteMove logs a move, when the next server has got what the former one had.
func (f *recovery) noteMove() {
	at, _ := f.machine.Left()
	m := &f.moves[len(f.moves)-1]
	m.Replayed = f.tracker.Duration(int64(f.tracker.Delivered() - f.from))
	m.Took = time.Duration(loop.Now() - at)
	f.session.sessions.shared.Log.Info("session moved", append(attrs(f.session.record.Attrs()),
		slog.String("from", m.From), slog.String("to", m.To), slog.String("cause", m.Cause.String()),
		slog.Duration("replayed", m.Replayed), slog.Duration("took", m.Took))...)
}

// countMove counts what came of a move, for the server that was left.
func (f *recovery) countMove(moved bool) {
	if m := f.left.meter; m != nil {
		m.FailedOver(f.left.cause, moved)
		f.releaseMeter()
	}
}

// releaseMeter says that nothing more is counted of a move. f may be nil.
func (f *recovery) releaseMeter() {
	if f != nil && f.left.meter != nil {
		f.left.meter.Release()
		f.left.meter = nil
	}
}

// endAsLost makes the end of a search without success, or for too long, the end that the session would have had without the search. f may be nil.
func (f *recovery) endAsLost(e *event) {
	if f == nil || e.class == meter.Shutdown || !f.machine.AwaitsDelivery() {
		return
	}
	f.happens(&failover.Event{Kind: failover.SearchFailed})
	why := e.reason
	e.by, e.class, e.code, e.reason = f.left.by, f.left.class, f.left.code, f.left.reason
	if why != "" {
		e.reason += "; not moved: " + why
	}
}

// endUnmoved records what a session's end without a server hides: if it ends while it waits for another one, it was not moved in time. What
// the client says about its own end is then not why the session failed. f may be nil.
func (f *recovery) endUnmoved(e *event) {
	if f == nil || e.class == meter.Shutdown || !f.machine.AwaitsDelivery() {
		return
	}
	switch e.kind {
	case clientClosed, clientLost:
		if _, cause := f.machine.Left(); !cause.Planned() {
			r := &f.session.record
			r.Class, r.Reason = f.left.class, f.left.reason+"; not moved: the client left while it waited for another server"
		}
	case clientBroke, stopped: // the fault of the client, or the decision of the proxy
	default: // see endAsLost
		return
	}
	f.happens(&failover.Event{Kind: failover.SearchFailed})
}

// happens reports an event to the machine, and does what it says.
func (f *recovery) happens(e *failover.Event) {
	var space [8]failover.Action
	f.perform(f.machine.Handle(e, space[:0]), e)
}

// perform carries out actions.
func (f *recovery) perform(do []failover.Action, e *failover.Event) {
	for _, a := range do {
		switch a {
		case failover.Blame, failover.BlameAlike:
			f.left.backend.SessionFailed(f.session.voter(), f.left.code, a == failover.BlameAlike)
		case failover.EndAlike:
			f.session.leg.alike = true
		case failover.CountMoved:
			f.countMove(true)
			f.recordMove()
		case failover.CountNotMoved:
			f.countMove(false)
		case failover.CountStayed:
			f.session.meter.FailedOver(e.Cause, false)
		case failover.Redirect:
			f.moves[len(f.moves)-1].To = f.session.record.Backend.Name()
		case failover.Measure:
			at, _ := f.machine.Left()
			f.session.meter.Failover.Observe(time.Duration(loop.Now() - at))
		case failover.Replay:
			f.replay()
		case failover.TellCaughtUp:
			f.tracker.CaughtUp()
		case failover.ForgetRefusals:
			f.session.life.turnedAway, f.session.life.tries = 0, 0
		case failover.NoteMove:
			f.noteMove()
		case failover.NoteLoss:
			f.noteLoss(&e.Loss)
		case failover.Drop:
			f.window.Drop(f.machine.Cursor())
		case failover.Stream:
			f.stream()
		case failover.Keep:
			f.keepAgain()
		case failover.LeaveServer:
			f.leaveByOrder()
		case failover.NoteArrival:
			f.pending.arrived, f.pending.replayed = f.session.record.Backend, f.moves[len(f.moves)-1].Replayed
		case failover.StartSearch:
			f.searchForMove()
		case failover.StopSearch:
			f.stopSearchForMove()
		}
	}
}
