package session

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// configured is a message that configures the present server, as others were.
type configured struct {
	op      frame.Opcode
	payload []byte
}

// How much memory a session takes at most for what it may keep by its service's ReplayWindow.
const (
	// perAudioByte is that for each byte of audio: base64, JSON around it, and the headers and entries of short messages.
	perAudioByte = 4
	// otherPerSecond is that for messages that are no audio, for each second of the window: twice the bytes of audio at 16 kHz.
	otherPerSecond = 64_000
)

// fromClient takes data frames, or pieces of them, as they come from the client.
func (f *failover) fromClient(b []byte) {
	switch {
	case f.session.life.state == completing: // it has said its last word; what follows goes nowhere
		f.pass(b)
		return
	case len(f.rest) > 0:
		f.rest = append(f.rest, b...)
		return
	}
	if n := f.take(b); n < len(b) {
		f.rest = append(f.rest, b[n:]...)
	}
	f.pump()
}

// pass follows what goes nowhere, so that the next message is known by its beginning.
func (f *failover) pass(b []byte) {
	for len(b) > 0 {
		_, n, is := f.up.next(b)
		b = b[n:]
		switch is {
		case gatheredPart:
			return
		case gatheredTooLong:
			f.up.skip()
		}
	}
}

// take takes whole messages into the window, and streams them if the session is not assured. It returns how many bytes it has taken: the rest
// waits until there is room for it, or all that is kept was sent.
func (f *failover) take(b []byte) (taken int) {
	for taken < len(b) {
		if f.streaming {
			if !f.maySend() {
				return taken
			}
			n := f.relay(b[taken:])
			f.follow(b[taken : taken+n])
			if taken += n; n == 0 || f.streaming {
				return taken
			}
			continue // it is assured again
		}
		if !f.assured { // what is kept is to be sent first
			return taken
		}
		m, n, is := f.up.next(b[taken:])
		switch is {
		case gatheredPart:
			return taken + n
		case gatheredTooLong:
			f.tooLong(b[taken+n:])
			return len(b)
		}
		if !f.window.Append(m.raw) {
			if f.mayWait() {
				if !m.single { // its beginning came before b
					f.rest = append(f.rest, m.raw...)
					return taken + n
				}
				return taken
			}
			f.loseMemory()
			if !m.single {
				f.restore(m.raw, b[taken+n:])
				return len(b)
			}
			continue
		}
		taken += n
		f.keep(&m)
	}
	return taken
}

// mayWait reports whether something is still to be sent of what is kept, so that the client can wait.
func (f *failover) mayWait() bool { return f.session.life.state == moving || !f.atEnd() }

// restore puts bytes that were taken before those that were not.
func (f *failover) restore(taken, rest []byte) {
	f.rest = append(append(make([]byte, 0, len(taken)+len(rest)), taken...), rest...)
}

// tooLong handles a message that is too long to be kept. rest begins with the frame that is too much.
func (f *failover) tooLong(rest []byte) {
	f.restore(f.up.begun(), rest)
	f.up.reset()
	if !f.mayWait() {
		f.lose(meter.UnassuredMessage, fmt.Sprintf("the client sent a message of more than %d KiB", maxWhole>>10), true)
	}
}

// keep makes a message, whose frames are in the window, an entry, and sends it if it is its turn.
func (f *failover) keep(m *message) {
	t := f.tracker
	e := f.classify(m)
	live := f.atEnd() && f.maySend()
	number := f.window.End(e)
	if number == 0 {
		f.first = e
	}
	if live && f.inspected()&(1<<m.op) == 0 {
		f.advance()
		f.insertNow()
		f.write(m.raw)
		t.Sent(e)
	}
	if why := t.Whole(); why != "" {
		f.lose(meter.UnassuredFormat, why, true)
		return
	}
	f.checkAge()
}

// classify tells the tracker of a message.
func (f *failover) classify(m *message) profile.Entry {
	if m.raw == nil || !f.tracker.NeedsPayload(m.op, m.size) {
		e := f.tracker.ClientMessage(m.op, nil, m.size)
		f.listen(m, e, nil)
		return e
	}
	buffer := messageBuffers.Get().(*[]byte)
	*buffer = m.appendPayload(*buffer)
	e := f.tracker.ClientMessage(m.op, *buffer, m.size)
	f.listen(m, e, *buffer)
	freeBuffer(buffer)
	return e
}

// checkAge takes the assurance away if what is kept has become too much, although the server has got all of it.
func (f *failover) checkAge() {
	if !f.assured || !f.tooMuch() || !f.atEnd() || f.session.life.state != relaying {
		return
	}
	why := "the server has answered nothing for longer than replay-window %v"
	if !f.tooOld() {
		why = "the client has sent more than is kept for replay-window %v"
	}
	f.lose(meter.UnassuredWindow, fmt.Sprintf(why, f.session.record.Service.ReplayWindow), false)
}

// tooMuch reports whether more is kept than the service's ReplayWindow allows.
func (f *failover) tooMuch() bool {
	window := f.session.record.Service.ReplayWindow
	if f.limit == 0 {
		f.limit = f.tracker.Bytes(window)
	}
	return f.tooOld() || f.window.Memory() > f.allowed(perAudioByte*f.limit+window.Milliseconds()*otherPerSecond/1000)
}

// tooOld reports whether more audio is not answered than the service's ReplayWindow allows.
func (f *failover) tooOld() bool {
	return f.limit > 0 && int64(f.tracker.Received()-f.tracker.Answered()) > f.allowed(f.limit)
}

// allowed returns how much may be kept where the service's ReplayWindow allows so much.
func (f *failover) allowed(limit int64) int64 {
	if f.leftAlone {
		return 2 * limit
	}
	return limit
}

// follow tells the tracker of messages that have streamed to the server.
func (f *failover) follow(b []byte) {
	for len(b) > 0 {
		m, n, is := f.up.next(b)
		b = b[n:]
		switch is {
		case gatheredPart:
			return
		case gatheredTooLong:
			f.up.skip()
			continue
		}
		e := f.classify(&m)
		if e.To > 0 && f.first.To == 0 && f.first == (profile.Entry{}) {
			f.first = e
		}
		f.tracker.Sent(e)
	}
	f.assureAgain()
}

// relay streams bytes to the server as they come. It returns how many it has taken.
func (f *failover) relay(b []byte) (taken int) {
	s := f.session
	for f.maySend() {
		run, _ := f.outgoing.Next(b[taken:]) // the session's scanner has checked it
		s.leg.up.pass(b[taken:taken+run.Data], run.Boundary)
		taken += run.Consumed
		if !run.Inspect {
			return taken
		}
		n, _ := s.fromClient.Present(s.leg.conn.Boundary(), profile.FromClient, &f.outgoing, &run, b[taken:], s.clientStep)
		taken += n
		if n == 0 {
			return taken
		}
	}
	return taken
}

// atEnd reports whether the present server has got everything that is kept.
func (f *failover) atEnd() bool { return f.cursor == f.window.Next() && len(f.resent) == 0 }

// maySend reports whether the server may be sent something now.
func (f *failover) maySend() bool {
	s := f.session
	return s.life.state == relaying && !s.leg.hold && s.leg.first == nil && !s.leg.up.to.Stalled()
}

// inspected returns the kinds of messages that the boundary inspects now.
func (f *failover) inspected() frame.Kinds {
	return f.session.leg.conn.Boundary().Inspect(profile.FromClient)
}

// holds reports whether the client is not to be read for now.
func (f *failover) holds() bool {
	if len(f.rest) > 0 || f.closing != nil {
		return true
	}
	switch s := f.session; s.life.state {
	case relaying:
		return s.leg.hold && !f.replaying || s.leg.up.to.Stalled() || !f.atEnd() && (!f.replaying || f.tooMuch())
	case moving:
		return !f.assured || f.tooMuch()
	}
	return false
}

// regulate reads the client again, or not, while the session relays or moves.
func (f *failover) regulate() {
	s := f.session
	if s.life.state != relaying && s.life.state != moving {
		return
	}
	switch {
	case !f.holds():
		s.client.Resume()
	case s.life.state == relaying && s.leg.up.to.Stalled(): // it can take what the client sends soon
		s.client.Pause()
	default:
		s.holdClient()
	}
}

// pump sends the server what it has not got, as far as it takes that now.
func (f *failover) pump() {
	s := f.session
	if f.pumping || s.leg.conn == nil {
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
	f.regulate()
	if f.closing != nil && s.life.state == relaying && f.atEnd() && len(f.rest) == 0 {
		f.closeNow()
	}
}

// sendNext sends the next message that is kept. It returns false if there is none, or if it has to wait.
func (f *failover) sendNext() bool {
	if len(f.resent) > 0 {
		c := f.resent[0]
		return f.present(profile.Entry{Kind: profile.EntryConfiguration}, c.op, c.payload, -1)
	}
	if f.cursor == f.window.Next() {
		return false
	}
	e := f.window.Entry(f.cursor)
	switch {
	case !f.tracker.Resend(e):
		f.cursor++
		return true
	case f.replaying && e.Kind == profile.EntryAudio && !f.inPace(e):
		return false
	}
	cut := e.Kind == profile.EntryAudio && e.From < f.from && f.from < e.To
	if !cut && f.inspected() == 0 {
		f.sendKept(e)
		return true
	}
	buffer := messageBuffers.Get().(*[]byte)
	defer freeBuffer(buffer)
	op, payload := f.window.Payload(*buffer, f.cursor)
	*buffer = payload
	if !cut {
		if f.inspected()&(1<<op) == 0 {
			f.sendKept(e)
			return true
		}
		return f.present(e, op, payload, f.cursor)
	}
	shorter, _ := f.tracker.Cut(nil, e, payload, f.from) // it could be cut when the leg began
	e.From = f.from
	return f.present(e, op, shorter, -1)
}

// sendKept sends the message at the cursor, with that entry, as it came.
func (f *failover) sendKept(e profile.Entry) {
	number := f.cursor
	f.advance()
	f.insertNow()
	f.window.Pieces(number, f.write)
	f.tracker.Sent(e)
}

// advance notes that a message goes to the server.
func (f *failover) advance() {
	f.sent++
	if len(f.resent) > 0 {
		f.resent = f.resent[1:]
	} else {
		f.cursor++
	}
}

// insertNow sends the control frames that wait, before a message.
func (f *failover) insertNow() { f.session.leg.up.insertNow() }

// write sends the server frames, or a piece of them.
func (f *failover) write(raw []byte) {
	if d := &f.session.leg.up; !d.closed {
		d.to.Write(raw)
	}
}

// present presents a whole message to the boundary, and sends it if the boundary says so: the frames of the kept message of that number,
// or a new frame if it is negative. It returns false if the message has to wait.
func (f *failover) present(e profile.Entry, op frame.Opcode, payload []byte, number int64) bool {
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
func (f *failover) sentNow() sent {
	return sent{
		messages: f.sent + f.outgoing.Messages, midMessage: !f.outgoing.AtMessageBoundary(), midFrame: !f.outgoing.AtFrameBoundary(),
	}
}

// postpones reports whether the client's close frame has to wait, because the server has not got all that the client sent before it.
func (f *failover) postpones(payload []byte) bool {
	if f.session.life.state != relaying || f.atEnd() && len(f.rest) == 0 {
		return false
	}
	if f.closing == nil {
		f.closing = append(make([]byte, 0, len(payload)), payload...)
		f.session.awaitLeaving()
	}
	f.session.life.discardInput = true
	return true
}

// closeNow handles the client's close frame, now that the server has got all that the client sent before it.
func (f *failover) closeNow() {
	payload := f.closing
	f.closing = nil
	f.session.clientClosed(payload)
}
