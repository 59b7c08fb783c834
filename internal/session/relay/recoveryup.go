package relay

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
)

// How much memory a session takes at most for what it may keep by its service's ReplayWindow.
const (
	// perAudioByte is that for each byte of audio: base64, JSON around it, and the headers and entries of short messages.
	perAudioByte = 4
	// otherPerSecond is that for messages that are no audio, for each second of the window: twice the bytes of audio at 16 kHz.
	otherPerSecond = 64_000
)

// littleWaiting is how much of a client's messages, in bytes, waits uncounted.
const littleWaiting = 16 << 10

// fromClient takes data frames, or pieces of them, as they come from the client.
func (f *recovery) fromClient(b []byte) {
	switch {
	case f.session.life.state == completing: // it has said its last word; what follows goes nowhere
		f.pass(f.rest)
		f.rest = nil
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

// countWaiting counts what waits of the client's messages. Where all clients have too much, the message under way does not wait for its end.
func (f *recovery) countWaiting() {
	n := len(f.rest)
	if !f.up.between() {
		n += len(f.up.begun())
	}
	if f.waiting == nil {
		if n < littleWaiting || f.session.life.state >= lingering {
			return
		}
		f.waiting = new(resume.Gathering)
		tenant, network := f.owner()
		f.waiting.Join(&f.session.sessions.lines.Unfinished, tenant, network)
	}
	if f.waiting.Count(n) || len(f.up.begun()) == 0 || f.up.between() {
		return
	}
	if f.machine.Streams() {
		f.up.skip()
		return
	}
	f.cannotKeep(f.rest, meter.UnrecoverableMemory, "too much waits of messages that clients have not ended", false)
	f.pump()
}

// pass follows what goes nowhere, so that the next message is known by its beginning.
func (f *recovery) pass(b []byte) {
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

// take takes whole messages into the window, and streams them if the session is not recoverable. It returns how many bytes it has taken: the rest
// waits until there is room for it, or all that is kept was sent.
func (f *recovery) take(b []byte) (taken int) {
	for taken < len(b) {
		if f.machine.Streams() {
			if !f.maySend() {
				return taken
			}
			n := f.relay(b[taken:])
			f.follow(b[taken : taken+n])
			if taken += n; n == 0 || f.machine.Streams() {
				return taken
			}
			continue // it is recoverable again
		}
		if !f.machine.Recoverable() { // what is kept is to be sent first
			return taken
		}
		m, n, is := f.up.next(b[taken:])
		switch is {
		case gatheredPart:
			return taken + n
		case gatheredTooLong:
			f.cannotKeep(b[taken+n:], meter.UnrecoverableMessage, fmt.Sprintf("the client sent a message of more than %d KiB", maxWhole>>10), true)
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
		f.up.done()
	}
	return taken
}

// mayWait reports whether something is still to be sent of what is kept, so that the client can wait.
func (f *recovery) mayWait() bool { return f.session.life.state == moving || !f.atEnd() }

// restore puts bytes that were taken before those that were not.
func (f *recovery) restore(taken, rest []byte) {
	f.rest = append(append(make([]byte, 0, len(taken)+len(rest)), taken...), rest...)
}

// cannotKeep handles a message that cannot be kept, whose beginning is in up. rest follows that.
func (f *recovery) cannotKeep(rest []byte, reason meter.Unrecoverable, why string, forGood bool) {
	f.restore(f.up.begun(), rest)
	f.up.reset()
	if !f.mayWait() {
		f.lose(reason, why, forGood)
	}
}

// keep makes a message, whose frames are in the window, an entry, and sends it if it is its turn.
func (f *recovery) keep(m *message) {
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
		f.lose(meter.UnrecoverableFormat, why, true)
		return
	}
	f.checkAge()
}

// classify tells the tracker of a message.
func (f *recovery) classify(m *message) profile.Entry {
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

// checkAge makes the session unrecoverable if what is kept has become too much, although the server has got all of it.
func (f *recovery) checkAge() {
	if !f.machine.Recoverable() || !f.tooMuch() || !f.atEnd() || f.session.life.state != relaying {
		return
	}
	why := "the server has answered nothing for longer than replay-window %v"
	if !f.tooOld() {
		why = "the client has sent more than is kept for replay-window %v"
	}
	f.lose(meter.UnrecoverableWindow, fmt.Sprintf(why, f.session.record.Service.ReplayWindow), false)
}

// tooMuch reports whether more is kept than the service's ReplayWindow allows.
func (f *recovery) tooMuch() bool {
	window := f.session.record.Service.ReplayWindow
	if f.limit == 0 {
		f.limit = f.tracker.Bytes(window)
	}
	return f.tooOld() || f.window.Memory() > f.allowed(perAudioByte*f.limit+window.Milliseconds()*otherPerSecond/1000)
}

// tooOld reports whether more audio is not answered than the service's ReplayWindow allows.
func (f *recovery) tooOld() bool {
	return f.limit > 0 && int64(f.tracker.Received()-f.tracker.Answered()) > f.allowed(f.limit)
}

// allowed returns how much may be kept where the service's ReplayWindow allows that much.
func (f *recovery) allowed(limit int64) int64 { return f.machine.Allowed(limit, f.tracker.Answered()) }

// follow tells the tracker of messages that have streamed to the server.
func (f *recovery) follow(b []byte) {
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
		f.up.done()
	}
	f.answered()
}

// relay streams bytes to the server as they come. It returns how many it has taken.
func (f *recovery) relay(b []byte) (taken int) {
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

// holds reports whether the client is not to be read for now.
func (f *recovery) holds() bool {
	s := f.session
	switch {
	case s.life.state > moving:
		return false
	case len(f.rest) > 0 || f.closing != nil:
		return true
	case s.life.state == moving:
		return !f.machine.Recoverable() || f.tooMuch()
	}
	ahead := f.machine.CatchesUp()
	return s.leg.hold && !ahead || s.leg.up.to.Stalled() || !f.atEnd() && (!ahead || f.tooMuch())
}

// regulate reads the client again, or not, while the session relays or moves.
func (f *recovery) regulate() {
	s := f.session
	if s.life.state != relaying && s.life.state != moving {
		return
	}
	switch {
	case !f.holds():
		s.client.Resume()
	case s.life.state == relaying && s.leg.up.to.Stalled(): // it can take what the client sends soon
		s.awaitServer()
	default:
		s.holdClient()
	}
}

// postpones reports whether the client's close frame has to wait, because the server has not got all that the client sent before it.
func (f *recovery) postpones(payload []byte) bool {
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
func (f *recovery) closeNow() {
	payload := f.closing
	f.closing = nil
	f.session.handleClientClose(payload)
}
