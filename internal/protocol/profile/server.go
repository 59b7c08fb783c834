package profile

import (
	"bytes"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// beginServerMessage handles the beginning of a message from the server.
func (b *Boundary) beginServerMessage(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromServer]
	m.begin(op, relayed, 0)
	switch b.state {
	case greeting:
		return b.beginGreeting(op, length)
	case idle:
		switch {
		case p.reuse == OneShot: // it is for the next client
			return b.beginGreeting(op, length)
		case b.flags&keepalivePending == 0:
			return b.markBroken(Step{Pass: Drop}, Unsolicited)
		}
		return b.beginInspection(FromServer, op, length, dropping)
	case opening, notReady, streaming, replacing:
		return b.beginInSession(op, length)
	case finishing:
		if b.awaitsAlive() {
			return b.beginInspection(FromServer, op, length, dropping)
		}
		return b.beginInspection(FromServer, op, length, inspecting)
	case resetting, leaving:
		return b.beginInspection(FromServer, op, length, dropping)
	case settling:
		if p.reuse != Quiet {
			return b.markBroken(Step{Pass: Drop}, LateMessage)
		}
		return b.beginInspection(FromServer, op, length, dropping)
	}
	m.fate = ignored
	return Step{Pass: Drop}
}

// beginGreeting begins to inspect a message that came before the first session. Unless it turns out to be busy or the answer to a
// keepalive message, it is saved for the client.
func (b *Boundary) beginGreeting(op frame.Opcode, length int64) Step {
	s := b.beginInspection(FromServer, op, length, dropping)
	m := &b.session.messages[FromServer]
	m.limit = b.program.longestGreeting
	if m.long = length > int64(m.limit); m.long {
		return b.markBroken(Step{Pass: Drop}, GreetingFailed)
	}
	return s
}

// beginInSession handles the beginning of a message that the server sends during a session.
func (b *Boundary) beginInSession(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromServer]
	can := p.fromServer.can[op]
	if b.flags&keepalivePending != 0 {
		return b.beginInspection(FromServer, op, length, dropping)
	}
	if s, ok := b.beginMaybeAlive(op, length); ok {
		return s
	}
	if b.flags&silent != 0 && (p.mayRefuse() || p.hasReady) {
		if can&(isReady|isBusy) != 0 && length <= int64(p.fromServer.limit[op]) {
			return b.beginInspection(FromServer, op, length, holding)
		}
		b.noteServing()
	}
	switch {
	case p.reuse == Tagged && can&isTagged != 0 && length <= int64(p.fromServer.limit[op]):
		return b.beginInspection(FromServer, op, length, holding)
	case p.reuse == Tagged: // it has no tag that the Boundary can read
		s := b.untagged()
		if s.Then == Foreign {
			m.fate = ignored
		}
		return s
	case p.sessionKinds()&(1<<op) != 0:
		return b.beginInspection(FromServer, op, length, holding)
	case b.flags&(ended|complete) == ended && can&isLast != 0 && length <= int64(p.fromServer.limit[op]):
		return b.beginInspection(FromServer, op, length, inspecting)
	}
	return Step{}
}

// replayable reports whether another connection can take over the session: the client has received nothing from the server, and the
// Boundary has a copy of all that the client has sent.
func (b *Boundary) replayable() bool {
	return b.flags&(silent|openingKnown) == silent|openingKnown && b.session.messages[FromClient].fate == unseen
}

// elsewhere asks the caller to move the session to another connection or, if that is not possible, to end it with TryAgainLater.
func (b *Boundary) elsewhere(why Reason) Step {
	b.forbidReuse(why)
	s := Step{Pass: Drop, Then: Elsewhere, Client: Pause, Reason: why, Timer: StopTimer}
	if !b.replayable() {
		s.Then, s.Close = Broken, frame.TryAgainLater
	}
	return s
}

// noteServing records that the server has sent the client something, so no other connection can take over the session.
func (b *Boundary) noteServing() {
	b.flags &^= openingKnown
	if !b.program.hasReady {
		b.flags &^= silent
		b.session.opening = Opening{}
		b.updateInspect()
	}
}

// endServerMessage handles a whole message from the server.
func (b *Boundary) endServerMessage(m *assembly, f found, payload []byte) Step {
	switch b.state {
	case greeting:
		return b.saveGreeting(m, f, payload)
	case idle:
		switch {
		case b.flags&keepalivePending != 0 && f.class&isAlive != 0:
			b.flags &^= keepalivePending
			b.forget()
			return Step{Pass: Drop}
		case b.program.reuse == OneShot:
			return b.saveGreeting(m, f, payload)
		}
		return b.markBroken(Step{Pass: Drop}, Unsolicited)
	case opening, notReady, streaming, replacing:
		return b.endInSession(f)
	case finishing, resetting:
		return b.countAnswer(f)
	case leaving:
		return b.countLastWord(f)
	case settling:
		if b.restarts++; int(b.restarts) > b.program.restarts {
			return b.markBroken(Step{Pass: Drop}, ResetTimeout)
		}
		return Step{Pass: Drop, Timer: b.program.settle}
	}
	return Step{Pass: Drop}
}

// saveGreeting saves a message that came before the first session for the client. If it says that the server is full, or if the
// greeting becomes too long, the connection is Broken.
func (b *Boundary) saveGreeting(m *assembly, f found, payload []byte) Step {
	if f.class&isBusy != 0 {
		return b.markBroken(Step{Pass: Drop}, Busy)
	}
	g := &b.ensureMemory().greeting
	if g.size += len(payload) + 1; g.size > b.program.longestGreeting {
		return b.markBroken(Step{Pass: Drop}, GreetingFailed)
	}
	g.opcodes, g.payloads = append(g.opcodes, m.opcode), append(g.payloads, bytes.Clone(payload))
	if b.state == greeting && f.class&isGreeting != 0 {
		return b.becomeIdle(Step{Pass: Drop})
	}
	if b.state == idle {
		b.forget()
	}
	return Step{Pass: Drop}
}

// endInSession handles a whole message that the server sent during a session.
func (b *Boundary) endInSession(f found) Step {
	p, session := b.program, b.session
	if b.flags&keepalivePending != 0 {
		session.notForClient++
		b.flags &^= keepalivePending
		b.updateInspect()
		if f.class&isAlive == 0 {
			return b.elsewhere(Unsolicited)
		}
		return Step{Pass: Drop, Client: Resume, Timer: StopTimer}
	}
	if session.keepalives > 0 && (f.class&isAlive != 0 || b.awaitsAlive()) {
		return b.endAlive(f)
	}
	if b.flags&silent != 0 && (p.mayRefuse() || p.hasReady) {
		switch {
		case f.class&isBusy != 0: // never for the client, even if no other connection can take over
			return b.elsewhere(Busy)
		case f.class&isReady != 0:
			b.flags &^= silent
			session.opening = Opening{}
			s := Step{}
			if b.state == notReady {
				b.state = streaming
				s.Client, s.Timer = Resume, StopTimer
			}
			b.updateInspect()
			return s
		default:
			b.noteServing()
		}
	}
	if f.class&isLast != 0 && b.flags&(ended|complete) == ended {
		b.flags |= complete
		b.updateInspect()
	}
	switch p.reuse {
	case Tagged:
		return b.tagged(f)
	case Fenced, Quiet:
		if f.class&isUntil == 0 || p.tokens {
			break
		}
		if session.acknowledged == session.counted {
			b.forbidReuse(Unsolicited)
			return Step{Pass: Drop, Then: Foreign, Reason: Unsolicited}
		}
		session.acknowledged++
	}
	return Step{}
}

// tagged handles a whole message from the server on a tagged connection.
func (b *Boundary) tagged(f found) Step {
	task := b.session.tasks.tagged(f.tag)
	if f.class&isFailed != 0 && (task != nil || f.tag == nil) {
		b.forbidReuse(TaskFailed)
	}
	switch {
	case task != nil:
		if f.class&isDone != 0 {
			task.done()
		}
	case f.tag == nil:
		return b.untagged()
	default:
		if !b.former().has(hashOf(f.tag)) { // the client has begun a task of which the boundary knows nothing
			b.forbidReuse(Unclean)
		}
		if b.flags&used != 0 { // it may belong to another session
			return Step{Pass: Drop}
		}
	}
	return Step{}
}

// untagged handles a message without a tag on a tagged connection, such as binary audio: nothing says which session it belongs to. In
// the connection's first session it can only belong to that one, so the client gets it, and the connection serves no other session. In a
// later session, it may belong to the client, and to drop it would leave a gap, or to another, and to relay it would show one client's
// data to another. So the session ends.
func (b *Boundary) untagged() Step {
	if b.flags&used == 0 {
		b.forbidReuse(Unclean)
		return Step{}
	}
	b.forbidReuse(Unsolicited)
	return Step{Pass: Drop, Then: Foreign, Reason: Unsolicited}
}
