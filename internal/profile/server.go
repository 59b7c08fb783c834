package profile

import (
	"bytes"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// serverBegins judges the beginning of a message from the server.
func (b *Boundary) serverBegins(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromServer]
	m.begin(op, relayed, 0)
	switch b.state {
	case greeting:
		return b.keeps(op, length)
	case idle:
		switch {
		case p.reuse == OneShot: // it is for the client to come
			return b.keeps(op, length)
		case b.flags&asked == 0:
			return b.breaks(Step{Pass: Drop}, Unsolicited)
		}
		return b.take(FromServer, op, length, dropping)
	case opening, notReady, streaming, replacing:
		return b.streams(op, length)
	case finishing:
		return b.take(FromServer, op, length, looking)
	case resetting:
		return b.take(FromServer, op, length, dropping)
	case settling:
		if p.reuse != Quiet {
			return b.breaks(Step{Pass: Drop}, LateMessage)
		}
		return b.take(FromServer, op, length, dropping)
	}
	m.fate = ignored
	return Step{Pass: Drop}
}

// keeps begins to look at a message that is kept for the client, unless it is something else.
func (b *Boundary) keeps(op frame.Opcode, length int64) Step {
	s := b.take(FromServer, op, length, dropping)
	m := &b.session.messages[FromServer]
	m.limit = b.program.longestGreeting
	if m.long = length > int64(m.limit); m.long {
		return b.breaks(Step{Pass: Drop}, GreetingFailed)
	}
	return s
}

// streams judges the beginning of a server's message in a session.
func (b *Boundary) streams(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromServer]
	can := p.fromServer.can[op]
	if b.flags&asked != 0 {
		return b.take(FromServer, op, length, dropping)
	}
	if b.flags&silent != 0 && (p.refuses() || p.readies) {
		if can&(isReady|isBusy) != 0 && length <= int64(p.fromServer.limit[op]) {
			return b.take(FromServer, op, length, holding)
		}
		b.spoke()
	}
	switch {
	case p.reuse == Tagged && can&isTagged != 0 && length <= int64(p.fromServer.limit[op]):
		return b.take(FromServer, op, length, holding)
	case p.reuse == Tagged: // it bears no tag that could be read
		s := b.untagged()
		if s.Then == Foreign {
			m.fate = ignored
		}
		return s
	case p.streamed()&(1<<op) != 0:
		return b.take(FromServer, op, length, holding)
	}
	return Step{}
}

// replayable reports whether another connection can take the session over: the server has said nothing to the client, and what
// the client has said to it is known.
func (b *Boundary) replayable() bool {
	return b.flags&(silent|replay) == silent|replay && b.session.messages[FromClient].fate == unseen
}

// elsewhere gives the session up to another connection, if that is possible.
func (b *Boundary) elsewhere(why Reason) Step {
	b.forbidReuse(why)
	s := Step{Pass: Drop, Then: Elsewhere, Client: Pause, Reason: why, Timer: StopTimer}
	if !b.replayable() {
		s.Then, s.Close = Broken, frame.TryAgainLater
	}
	return s
}

// spoke notes that the server has begun to serve the session.
func (b *Boundary) spoke() {
	b.flags &^= replay // the client has seen something of it
	if !b.program.readies {
		b.flags &^= silent
		b.session.opening = Opening{}
		b.updateInspect()
	}
}

// serverSaid judges a whole message from the server.
func (b *Boundary) serverSaid(m *assembly, f found, payload []byte) Step {
	switch b.state {
	case greeting:
		return b.greeted(m, f, payload)
	case idle:
		switch {
		case b.flags&asked != 0 && f.class&isAlive != 0:
			b.flags &^= asked
			b.forget()
			return Step{Pass: Drop}
		case b.program.reuse == OneShot:
			return b.greeted(m, f, payload)
		}
		return b.breaks(Step{Pass: Drop}, Unsolicited)
	case opening, notReady, streaming, replacing:
		return b.streamed(f)
	case finishing, resetting:
		return b.counts(f)
	case settling:
		if b.restarts++; int(b.restarts) > b.program.restarts {
			return b.breaks(Step{Pass: Drop}, ResetTimeout)
		}
		return Step{Pass: Drop, Timer: b.program.settle}
	}
	return Step{Pass: Drop}
}

// greeted judges a message that came before the first session. It is kept for the client.
func (b *Boundary) greeted(m *assembly, f found, payload []byte) Step {
	if f.class&isBusy != 0 {
		return b.breaks(Step{Pass: Drop}, Busy)
	}
	if b.greeting == nil {
		b.greeting = new(savedGreeting)
	}
	k := b.greeting
	if k.size += len(payload) + 1; k.size > b.program.longestGreeting {
		return b.breaks(Step{Pass: Drop}, GreetingFailed)
	}
	k.opcodes, k.payloads = append(k.opcodes, m.opcode), append(k.payloads, bytes.Clone(payload))
	if b.state == greeting && f.class&isGreeting != 0 {
		return b.becomeIdle(Step{Pass: Drop})
	}
	if b.state == idle {
		b.forget()
	}
	return Step{Pass: Drop}
}

// streamed judges a server's message in a session.
func (b *Boundary) streamed(f found) Step {
	p, session := b.program, b.session
	if b.flags&asked != 0 {
		session.swallowed++
		b.flags &^= asked
		b.updateInspect()
		if f.class&isAlive == 0 {
			return b.elsewhere(Unsolicited)
		}
		return Step{Pass: Drop, Client: Resume, Timer: StopTimer}
	}
	if b.flags&silent != 0 && (p.refuses() || p.readies) {
		switch {
		case f.class&isBusy != 0: // not for the client, even when it is too late for another connection
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
			b.spoke()
		}
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

// tagged judges a server's message on a tagged connection.
func (b *Boundary) tagged(f found) Step {
	task := b.session.tasks.find(f.tag)
	if f.class&isFailed != 0 && (task != nil || f.tag == nil) {
		b.forbidReuse(TaskFailed)
	}
	switch {
	case task != nil:
		if f.class&isDone != 0 {
			task.open = false
		}
	case f.tag == nil:
		return b.untagged()
	case b.flags&used != 0: // another session's
		return Step{Pass: Drop}
	}
	return Step{}
}

// untagged judges a message on a tagged connection that nothing tells whose it is, such as binary audio. The first session gets it,
// since there was no other whose it could be, and the connection serves no other. In a later one it may be the client's own, so that
// dropping it would leave a hole, or another's, so that it must not be shown: the session ends.
func (b *Boundary) untagged() Step {
	if b.flags&used == 0 {
		b.forbidReuse(Unclean)
		return Step{}
	}
	b.forbidReuse(Unsolicited)
	return Step{Pass: Drop, Then: Foreign, Reason: Unsolicited}
}
