package profile

import (
	"bytes"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// beginClientMessage handles the beginning of a message from the client.
func (b *Boundary) beginClientMessage(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromClient]
	m.begin(op, relayed, 0)
	switch {
	case b.state == notReady || b.flags&keepalivePending != 0: // the caller should have paused the client
		m.fate = unseen
		return Step{Pass: Keep, Client: Pause}
	case b.state == opening:
		b.countText(op)
		return b.beginOpening(m, op, length)
	case b.state != streaming: // the session has ended; what follows goes nowhere
		m.fate = ignored
		return Step{Pass: Drop}
	}
	b.countText(op)
	if b.flags&(ended|openingKnown) != 0 {
		b.flags &^= ended | complete | openingKnown
		b.session.opening = Opening{}
		b.updateInspect()
	}
	can := p.fromClient.can[op]
	if can == 0 {
		return Step{}
	}
	if length > int64(p.fromClient.limit[op]) {
		f := p.fromClient.tooLong(op)
		if f.class|f.doubt&p.mustKnow == 0 { // no matcher can match a message of this length: this is the usual case for audio
			return Step{}
		}
	}
	if p.replace && can&isEnd != 0 && b.flags&noReuse == 0 {
		return b.beginInspection(FromClient, op, length, holding)
	}
	return b.beginInspection(FromClient, op, length, inspecting)
}

// beginOpening handles the beginning of a session's first message.
func (b *Boundary) beginOpening(m *assembly, op frame.Opcode, length int64) Step {
	m.fate = unseen
	p := b.program
	f := inspecting
	if p.hasSticky() {
		if long := length > int64(p.fromClient.limit[op]); !long && p.fromClient.can[op]&isSticky != 0 {
			f = holding
		} else if s, ok := b.checkSettings(p.unreadSettings(op)); !ok {
			return s
		}
	}
	if b.needsTag() {
		if op != frame.Text || length > int64(p.fromClient.limit[op]) {
			return Step{Pass: Keep, Client: Pause, Then: Elsewhere, Reason: OtherSettings}
		}
		f = holding
	}
	guided := b.mayBeGuided(op, length)
	if guided || p.replace && p.fromClient.can[op]&isEnd != 0 {
		f = holding
	}
	s := b.beginInspection(FromClient, op, length, f)
	if m.limit < maxFormat && op == frame.Text && b.session.formats != nil {
		m.limit = maxFormat
		m.long = length > maxFormat
	}
	if (guided || p.mayRefuse() || p.hasReady) && m.limit < p.longest { // another connection may need all of it
		m.limit = p.longest
		m.long = length > int64(m.limit)
		if f == holding && !m.long {
			m.fate = holding
			s.Pass = Hold
		}
	}
	if guided && !m.long { // whatever else needs the message
		m.fate, s.Pass = holding, Hold
	}
	return s
}

// maxFormat is the longest message, in bytes, in which the format of a client's audio is looked for, where nothing else needs the message.
const maxFormat = 4 << 10

// needsTag reports whether a session must begin with the tag of a new task: on a used tagged connection, the client gets nothing else, and the server
// may still send messages about a former session's task, which would be taken for those about one with the same tag.
func (b *Boundary) needsTag() bool { return b.program.reuse == Tagged && b.flags&used != 0 }

// followTasks notes which task a message from the client begins or belongs to. ok is false if the session cannot stay on the connection.
func (b *Boundary) followTasks(op frame.Opcode, f found) (s Step, ok bool) {
	if f.class&isStart != 0 {
		switch b.session.startTask(f.tag, f.name, b.former(), b.program) {
		case unclean:
			b.forbidReuse(Unclean)
		case unreadable:
			b.forbidReuse(Unclean)
			if b.needsTag() { // none of its messages would reach the client, who would wait for them
				return b.markBroken(Step{Close: frame.TryAgainLater}, OtherSettings), false
			}
		}
	}
	task := b.session.tasks.tagged(f.tag)
	// What belongs to no task that is open may begin something of which the boundary knows nothing.
	if op == frame.Text && (task == nil || !task.open) || f.class&isStray != 0 {
		b.forbidReuse(Unclean)
	}
	if task != nil && f.class&isDone != 0 {
		task.over = true
	}
	return Step{}, true
}

// endClientMessage handles a whole message from the client.
func (b *Boundary) endClientMessage(m *assembly, f found, payload []byte) (s Step) {
	p, session := b.program, b.session
	first := b.state == opening
	if first {
		if session.formats != nil && m.opcode == frame.Text && !m.long {
			session.formats.firstMessage(payload)
		}
		ok := !b.isGuided(m, payload)
		if !ok {
			s = Step{Pass: Drop, Client: Pause, Then: Elsewhere, Reason: OtherServer}
		} else if p.hasSticky() {
			s, ok = b.checkFirstMessage(m, f, payload)
		} else if b.needsTag() && (f.class&isStart == 0 || f.tag == nil || b.former().has(hashOf(f.tag))) {
			s, ok = Step{Pass: Drop, Client: Pause, Then: Elsewhere, Reason: OtherSettings}, false
		}
		if p.mayRefuse() || p.hasReady || !ok {
			session.opening = Opening{m.opcode, bytes.Clone(payload)}
		}
		if !ok {
			session.withheld++
			return s
		}
		if m.long {
			b.flags &^= openingKnown
		}
		b.state = streaming
		if p.hasReady {
			b.state = notReady
			s.Client, s.Timer = Pause, p.readyTime
		} else if p.busyTime > 0 && b.flags&(silent|openingKnown) == silent|openingKnown {
			b.state = notReady
			s.Client, s.Timer = Pause, p.busyTime
		}
	}
	if f.doubt&p.mustKnow != 0 && !(first && f.doubt&p.mustKnow == isSticky) || f.class&isSticky != 0 && !first {
		b.forbidReuse(Unclean)
	}
	if p.replace && f.class&isEnd != 0 && b.flags&noReuse == 0 {
		session.withheld++
		b.state = replacing
		b.updateInspect()
		return Step{Pass: Drop, Then: Replaced}
	}
	if f.class&isUnanswered != 0 {
		session.unanswered++
	}
	if f.class&isCounted != 0 || p.endResets && f.class&isEnd != 0 {
		session.counted++
	}
	if p.reuse == Tagged || f.class&isStart != 0 {
		if s, ok := b.followTasks(m.opcode, f); !ok {
			return s
		}
	}
	if f.class&isEnd != 0 {
		b.flags |= ended
	}
	b.updateInspect()
	return s
}
