package profile

import "github.com/wsbouncer/wsbouncer/internal/frame"

// ReplaceEnd follows on a Step that says Replaced: it puts the reset in the place of the client's end message. Everything from
// the server goes on to the client until its last answer came (Finished).
func (b *Boundary) ReplaceEnd(t Traffic) (s Step) {
	t = withEnd(t)
	if b.state != replacing || !b.Plausible(t) {
		return b.breaks(Step{Close: frame.InternalError}, Unsolicited)
	}
	session := b.session
	if b.program.reuse == Lockstep {
		owed := b.owed(t)
		session.answers = owed + 1
		session.expected = owed + uint64(b.program.replies)
	} else {
		session.expected = session.counted - session.acknowledged + 1
		session.answers = session.expected
	}
	b.state = finishing
	b.tail(finishing)
	b.updateInspect()
	return Step{Send: b.program.reset, Timer: b.program.timeout}
}

// withEnd counts the client's end message as whole, also where the caller has not done so yet.
func withEnd(t Traffic) Traffic {
	if t.SendingMessage {
		t.Sent, t.SendingMessage = t.Sent+1, false
	}
	return t
}

// tail settles what becomes of the rest of the server's message that is under way, as far as it has been presented.
func (b *Boundary) tail(s state) {
	m := &b.session.messages[FromServer]
	switch {
	case !m.fate.looked():
		m.fate = unseen
	case s == resetting:
		m.fate = dropping
	}
}

// owed returns how many messages a lockstep server has still to send to the session. The traffic must be plausible.
func (b *Boundary) owed(t Traffic) uint64 {
	s := b.session
	answered := t.Received + s.taken + s.unanswered
	if asked := t.Sent + s.swallowed; asked > answered {
		return asked - answered
	}
	return 0
}

// End ends the session and with it the lease. The Step says Ready when the connection may serve another session, Resetting
// when that depends on what the server says next, or Broken.
func (b *Boundary) End(t Traffic) (s Step) {
	p, session := b.program, b.session
	switch b.state {
	case finishing:
		b.state = resetting
		b.tail(resetting)
		b.updateInspect()
		return Step{Then: Resetting}
	case resetting, settling:
		return Step{Then: Resetting}
	case idle: // the reset has succeeded since the client got its last answer
		return Step{Then: Ready}
	case replacing:
		t = withEnd(t)
	case greeting, broken:
		return b.breaks(s, b.reason)
	}
	sent := t.Sent - min(session.taken, t.Sent)
	switch {
	case t.SendingMessage:
		return b.breaks(s, Cut)
	case p.reuse == OneShot:
		return b.breaks(s, Served)
	case b.flags&noReuse != 0:
		return b.breaks(s, b.reason)
	case !b.Plausible(t):
		return b.breaks(s, Unsolicited)
	case sent == 0:
		if t.Received > session.swallowed || t.ReceivingMessage && b.flags&asked == 0 {
			return b.breaks(s, Unsolicited)
		}
		return b.unused(s)
	case b.state == notReady:
		return b.breaks(s, NotReady)
	}
	b.flags |= used
	if p.early == EarlyDiscard && !p.blind && (p.ends && b.flags&ended == 0 || session.tasks.open() > 0) {
		return b.breaks(s, LeftEarly)
	}
	return b.resets(t)
}

// unused ends a session that said nothing: there is nothing to reset.
func (b *Boundary) unused(s Step) Step {
	if b.flags&asked == 0 {
		return b.becomeIdle(s)
	}
	s = b.becomeIdle(s) // the keepalive message's answer is still to come
	s.Timer = b.program.timeout
	return s
}

// resets begins to make the connection clean.
func (b *Boundary) resets(t Traffic) (s Step) {
	p, session := b.program, b.session
	b.state = resetting
	b.tail(resetting)
	b.updateInspect()
	s.Then, s.Timer = Resetting, p.timeout
	switch {
	case p.blind: // nothing is sent, and nothing awaited but the end of a message
		if !t.ReceivingMessage {
			return b.becomeIdle(s)
		}
	case p.reuse == Lockstep:
		session.expected = b.owed(t) + uint64(p.replies)
		s.Send = p.reset
	case p.reuse == Tagged:
		if session.tasks.tags != 0 {
			b.settings = uint64(session.tasks.tags)
		}
		session.expected = session.tasks.open()
	default:
		session.expected = session.counted - session.acknowledged
		if p.endResets && b.flags&ended != 0 { // the client's own end message is the reset
			if p.reuse == Fenced && session.expected == 0 && t.ReceivingMessage {
				return b.breaks(Step{}, LateMessage)
			}
			break
		}
		if len(p.reset) == 0 {
			return b.breaks(s, LeftEarly)
		}
		session.expected++
		if p.tokens {
			session.expected = 1
		}
		s.Send = p.reset
		if p.unprompted {
			session.expected = 0
		}
	}
	if session.expected == 0 && !t.ReceivingMessage { // otherwise the end of that message is awaited
		return b.succeeded(s)
	}
	return s
}

// counts judges a message that came after the reset was sent.
func (b *Boundary) counts(f found) (s Step) {
	p, session := b.program, b.session
	switch {
	case p.blind && session.expected == 0: // only the end of this message was awaited
		return b.becomeIdle(Step{Pass: Drop})
	case p.reuse == Lockstep:
		session.expected--
		if session.expected == 0 && p.until && f.class&isUntil == 0 {
			return b.mismatch()
		}
		session.answers -= min(session.answers, 1)
	case p.reuse == Tagged:
		task := session.tasks.find(f.tag)
		if f.class&isFailed != 0 && (task != nil || f.tag == nil) {
			return b.breaks(Step{Pass: Drop}, TaskFailed)
		}
		if task != nil && f.class&isDone != 0 && task.open {
			task.open = false
			session.expected--
		}
	default:
		if f.class&isUntil != 0 {
			if session.expected == 0 { // nobody asked for it
				return b.breaks(Step{Pass: Drop}, Unsolicited)
			}
			session.expected--
			session.answers -= min(session.answers, 1)
		}
	}
	if b.state == finishing && session.answers == 0 {
		s.Then, s.Close = Finished, frame.NormalClosure
		b.state = resetting
	}
	if session.expected == 0 {
		then, code := s.Then, s.Close
		s = b.succeeded(s)
		if then == Finished {
			s.Then, s.Close = then, code
		}
	}
	b.updateInspect()
	return s
}

// mismatch ends a connection whose server answered the reset with something else.
func (b *Boundary) mismatch() Step {
	var s Step
	if b.state == finishing {
		s.Close = frame.InternalError
	}
	return b.breaks(s, ResetMismatch)
}

// succeeded follows on a reset that was seen to succeed.
func (b *Boundary) succeeded(s Step) Step {
	if b.program.settle > 0 {
		b.state = settling
		b.restarts = 0
		b.updateInspect()
		s.Then, s.Timer = Resetting, b.program.settle
		return s
	}
	return b.becomeIdle(s)
}

// Timer presents that the time has passed which a Step asked for. between tells that everything received has been presented,
// and that it ends with a whole message and not within a frame's header.
func (b *Boundary) Timer(between bool) (s Step) {
	p := b.program
	switch b.state {
	case greeting:
		return b.breaks(s, GreetingFailed)
	case idle:
		return b.keepsAlive(between)
	case opening, streaming:
		if b.flags&asked != 0 {
			return b.elsewhere(NotAlive)
		}
	case notReady:
		return b.elsewhere(NotReady)
	case replacing, finishing:
		return b.breaks(Step{Close: frame.InternalError}, ResetTimeout)
	case resetting:
		return b.breaks(s, ResetTimeout)
	case settling:
		switch {
		case between && (b.session == nil || !b.session.messages[FromServer].fate.looked()):
			return b.becomeIdle(s)
		case p.reuse == Quiet && int(b.restarts) < p.restarts:
			b.restarts++
			s.Timer = p.settle
			return s
		}
		return b.breaks(s, LateMessage)
	}
	return s
}

// keepsAlive sends the next keepalive message of an idle connection.
func (b *Boundary) keepsAlive(between bool) Step {
	p := b.program
	switch {
	case p.aliveEvery == 0:
		return Step{}
	case b.flags&asked != 0 || !between:
		return b.breaks(Step{}, NotAlive)
	}
	if p.alives {
		b.flags |= asked
	}
	return Step{Send: p.alive, Timer: p.aliveEvery}
}

// Closed presents that the server has closed the connection, with the close code or 0 for none, or that it is lost.
func (b *Boundary) Closed(code frame.CloseCode) Step {
	full := fits(uint16(code), b.program.busyClose)
	switch b.state {
	case opening, notReady, streaming:
		if full && b.replayable() {
			return b.elsewhere(Busy)
		}
		b.forbidReuse(ServerClosed)
		return Step{Then: Broken, Reason: ServerClosed, Timer: StopTimer}
	case replacing, finishing:
		return b.breaks(Step{Close: frame.InternalError}, ServerClosed)
	case greeting:
		if full {
			return b.breaks(Step{}, Busy)
		}
	}
	return b.breaks(Step{}, ServerClosed)
}
