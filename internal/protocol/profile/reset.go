package profile

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// ReplaceEnd replaces the client's end message by the reset. The caller calls it after a Step that says Replaced, and
// continues to relay the server's messages to the client until a Step says Finished.
func (b *Boundary) ReplaceEnd(t Traffic) (s Step) {
	t = withEnd(t)
	if b.state != replacing || !b.Plausible(t) {
		return b.markBroken(Step{Close: frame.InternalError}, Unsolicited)
	}
	session := b.session
	if b.program.reuse == Lockstep {
		missing := b.missingAnswers(t)
		session.answers = uint32(missing + 1)
		session.expected = missing + uint64(b.program.replies)
	} else {
		session.expected = session.counted - session.acknowledged + 1
		session.answers = uint32(session.expected)
	}
	b.state = finishing
	b.updatePartial(finishing)
	b.updateInspect()
	return Step{Send: b.program.reset, Timer: b.program.lastResultTime}
}

// withEnd returns the traffic with the client's end message counted as whole, even if the caller has not counted it yet.
func withEnd(t Traffic) Traffic {
	if t.SendingMessage {
		t.Sent, t.SendingMessage = t.Sent+1, false
	}
	return t
}

// updatePartial decides what happens to the rest of a message from the server of which a part was presented, when the Boundary enters
// state s.
func (b *Boundary) updatePartial(s state) {
	m := &b.session.messages[FromServer]
	switch {
	case !m.fate.inspected():
		m.fate = unseen
	case s == resetting, s == leaving:
		m.fate = dropping
	}
}

// missingAnswers returns how many messages a lockstep server must still send to the session. The traffic must be plausible.
func (b *Boundary) missingAnswers(t Traffic) uint64 {
	s := b.session
	answered := t.Received + s.withheld + s.unanswered
	if sent := t.Sent + s.notForClient; sent > answered {
		return sent - answered
	}
	return 0
}

// End ends the session and its lease. The Step says Ready if the connection may serve another session, Resetting if that depends on
// what the server sends next, Leaving if the server was told that the session has ended, or Broken.
func (b *Boundary) End(t Traffic) (s Step) {
	p, session := b.program, b.session
	switch b.state {
	case finishing:
		b.state = resetting
		b.updatePartial(resetting)
		b.updateInspect()
		return Step{Then: Resetting, Timer: b.program.timeout} // no client waits for the last result
	case resetting, settling:
		return Step{Then: Resetting}
	case idle: // the reset has succeeded after the client's last answer
		return Step{Then: Ready}
	case replacing:
		t = withEnd(t)
	case greeting, broken, leaving:
		return b.markBroken(s, b.reason)
	}
	if why, ok := b.leaves(t); ok {
		return b.beginLeave(why, t)
	}
	sent := t.Sent - min(session.withheld, t.Sent)
	switch {
	case t.SendingMessage:
		return b.markBroken(s, Cut)
	case p.reuse == OneShot:
		return b.markBroken(s, Served)
	case b.flags&noReuse != 0:
		return b.markBroken(s, b.reason)
	case !b.Plausible(t):
		return b.markBroken(s, Unsolicited)
	case sent == 0:
		if t.Received > session.notForClient || t.ReceivingMessage && b.flags&keepalivePending == 0 {
			return b.markBroken(s, Unsolicited)
		}
		return b.endUnused(s)
	case b.state == notReady:
		return b.markBroken(s, NotReady)
	}
	b.flags |= used
	if b.leftEarly() {
		return b.markBroken(s, LeftEarly)
	}
	return b.beginReset(t)
}

// leftEarly reports whether the connection serves no other session, since the client has left without its end message.
func (b *Boundary) leftEarly() bool {
	p := b.program
	return p.early == EarlyDiscard && !p.blind && (p.ends && b.flags&ended == 0 || b.session.tasks.open() > 0)
}

// endUnused ends a session in which nothing was sent to the server, so nothing needs a reset.
func (b *Boundary) endUnused(s Step) Step {
	switch n := b.session.keepalives; {
	case n == 1:
		b.flags |= keepalivePending
	case n > 1:
		return b.markBroken(s, NotAlive)
	}
	if b.flags&keepalivePending == 0 {
		return b.becomeIdle(s)
	}
	s = b.becomeIdle(s) // but still wait for the answer to the keepalive message
	s.Timer = b.program.timeout
	return s
}

// beginReset begins the profile's reset, which makes the connection clean.
func (b *Boundary) beginReset(t Traffic) (s Step) {
	p, session := b.program, b.session
	b.state = resetting
	b.updatePartial(resetting)
	b.updateInspect()
	s.Then, s.Timer = Resetting, p.timeout
	switch {
	case p.blind: // send nothing, and wait only for the end of a message that has begun
		if !t.ReceivingMessage {
			return b.becomeIdle(s)
		}
	case p.reuse == Lockstep:
		session.answers = uint32(b.missingAnswers(t) + 1)
		session.expected = uint64(session.answers) - 1 + uint64(p.replies)
		s.Send = p.reset
	case p.reuse == Tagged:
		if !b.keepTags() {
			return b.markBroken(Step{}, Unclean)
		}
		session.expected = session.tasks.open()
	default:
		session.expected = session.counted - session.acknowledged
		if p.endResets && b.flags&ended != 0 { // the client's own end message is the reset
			if p.reuse == Fenced && session.expected == 0 && t.ReceivingMessage {
				return b.markBroken(Step{}, LateMessage)
			}
			break
		}
		if len(p.reset) == 0 {
			return b.markBroken(s, LeftEarly)
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
	if session.expected == 0 && !t.ReceivingMessage && !b.awaitsAlive() { // otherwise wait for the end of that message
		return b.resetSucceeded(s)
	}
	return s
}

// countAnswer handles a message that came after the reset began.
func (b *Boundary) countAnswer(f found) (s Step) {
	p, session := b.program, b.session
	if b.awaitsAlive() {
		session.keepalives--
		if session.expected == 0 {
			return b.resetSucceeded(Step{Pass: Drop})
		}
		return Step{Pass: Drop}
	}
	switch { // a busy server works through its backlog before it comes to the reset
	case b.state == finishing:
		s.Timer = p.lastResultTime
	case p.reuse == Lockstep && session.answers > 0:
		s.Timer = p.timeout
	}
	switch {
	case p.blind && session.expected == 0: // the Boundary waited only for the end of this message
		return b.becomeIdle(Step{Pass: Drop})
	case p.reuse == Lockstep:
		session.expected--
		if session.expected == 0 && p.until && f.class&isUntil == 0 {
			return b.failReset()
		}
		session.answers -= min(session.answers, 1)
	case p.reuse == Tagged:
		task := session.tasks.tagged(f.tag)
		if f.class&isFailed != 0 && (task != nil || f.tag == nil) {
			return b.markBroken(Step{Pass: Drop}, TaskFailed)
		}
		if task != nil && f.class&isDone != 0 && task.open {
			task.done()
			session.expected--
		}
	default:
		if f.class&isUntil != 0 {
			if session.expected == 0 { // it was not asked for
				return b.markBroken(Step{Pass: Drop}, Unsolicited)
			}
			session.expected--
			session.answers -= min(session.answers, 1)
		}
	}
	if b.state == finishing && session.answers == 0 {
		s.Then, s.Close, s.Timer = Finished, frame.NormalClosure, p.timeout
		b.state = resetting
	}
	if session.expected == 0 {
		then, code := s.Then, s.Close
		s = b.resetSucceeded(s)
		if then == Finished {
			s.Then, s.Close = then, code
		}
	}
	b.updateInspect()
	return s
}

// failReset makes a connection Broken because the server's last reply to the reset is not the acknowledgement.
func (b *Boundary) failReset() Step {
	var s Step
	if b.state == finishing {
		s.Close = frame.InternalError
	}
	return b.markBroken(s, ResetMismatch)
}

// resetSucceeded begins the settle window after a successful reset, or makes the connection Ready if the profile has none.
func (b *Boundary) resetSucceeded(s Step) Step {
	if b.program.settle > 0 {
		b.state = settling
		b.restarts = 0
		b.updateInspect()
		s.Then, s.Timer = Resetting, b.program.settle
		return s
	}
	return b.becomeIdle(s)
}

// Timer reports that the time that a Step asked for has passed. between is true if the caller has presented everything that it
// received, and that ends with a whole message and not within a frame's header.
func (b *Boundary) Timer(between bool) (s Step) {
	p := b.program
	switch b.state {
	case greeting:
		return b.markBroken(s, GreetingFailed)
	case idle:
		return b.sendKeepalive(between)
	case opening, streaming:
		if b.flags&keepalivePending != 0 {
			return b.elsewhere(NotAlive)
		}
	case notReady:
		if b.mayBeFull() { // the server would have said that it is full
			b.state = streaming
			b.updateInspect()
			return Step{Client: Resume, Timer: StopTimer}
		}
		return b.elsewhere(NotReady)
	case replacing, finishing:
		return b.markBroken(Step{Close: frame.InternalError}, ResultTimeout)
	case resetting:
		return b.markBroken(s, ResetTimeout)
	case leaving:
		return b.markBroken(s, LeaveTimeout)
	case settling:
		switch {
		case between && (b.session == nil || !b.session.messages[FromServer].fate.inspected()):
			return b.becomeIdle(s)
		case p.reuse == Quiet && int(b.restarts) < p.restarts:
			b.restarts++
			s.Timer = p.settle
			return s
		}
		return b.markBroken(s, LateMessage)
	}
	return s
}

// sendKeepalive sends an idle connection's next keepalive message.
func (b *Boundary) sendKeepalive(between bool) Step {
	p := b.program
	switch {
	case p.aliveEvery == 0:
		return Step{}
	case b.flags&keepalivePending != 0 || !between:
		return b.markBroken(Step{}, NotAlive)
	}
	if p.hasAlive {
		b.flags |= keepalivePending
	}
	return Step{Send: p.alive, Timer: p.aliveEvery}
}

// Closed reports that the server has closed the connection, with its close code or 0 for none, or that the connection is lost.
func (b *Boundary) Closed(code frame.CloseCode) Step {
	full := inRanges(uint16(code), b.program.busyClose)
	switch b.state {
	case opening, notReady, streaming:
		if full && b.replayable() {
			return b.elsewhere(Busy)
		}
		b.forbidReuse(ServerClosed)
		return Step{Then: Broken, Reason: ServerClosed, Timer: StopTimer}
	case replacing, finishing:
		return b.markBroken(Step{Close: frame.InternalError}, ServerClosed)
	case greeting:
		if full {
			return b.markBroken(Step{}, Busy)
		}
	}
	return b.markBroken(Step{}, ServerClosed)
}
