package profile

import (
	"bytes"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// clientBegins judges the beginning of a client's message.
func (b *Boundary) clientBegins(op frame.Opcode, length int64) Step {
	p, m := b.program, &b.session.messages[FromClient]
	m.begin(op, relayed, 0)
	switch {
	case b.state == notReady || b.flags&asked != 0: // it was to be paused
		m.fate = unseen
		return Step{Pass: Keep, Client: Pause}
	case b.state == opening:
		return b.opens(m, op, length)
	case b.state != streaming: // the session is over; the rest is nobody's
		m.fate = ignored
		return Step{Pass: Drop}
	}
	if b.flags&(ended|replay) != 0 {
		b.flags &^= ended | replay
		b.session.opening = Opening{}
		b.updateInspect()
	}
	can := p.fromClient.can[op]
	if can == 0 {
		return Step{}
	}
	if length > int64(p.fromClient.limit[op]) {
		f := p.fromClient.tooLong(op)
		if f.class|f.doubt&p.kept == 0 { // nothing that a message of this length could be, as nearly always with audio
			return Step{}
		}
	}
	if p.replace && can&isEnd != 0 && b.flags&noReuse == 0 {
		return b.take(FromClient, op, length, holding)
	}
	return b.take(FromClient, op, length, looking)
}

// opens judges the beginning of a session's first message.
func (b *Boundary) opens(m *assembly, op frame.Opcode, length int64) Step {
	m.fate = unseen
	p := b.program
	f := looking
	if p.sticks() {
		if p.fromClient.can[op]&isSticky == 0 { // it sets nothing, that much is known
			if s, fits := b.fit(noSettings); !fits {
				return s
			}
		} else if f = holding; length > int64(p.fromClient.limit[op]) { // it may set something, and cannot be told
			if s, fits := b.fit(unknownSettings); !fits {
				return s
			}
		}
	}
	if p.replace && p.fromClient.can[op]&isEnd != 0 || p.reuse == Tagged && b.flags&used != 0 && op == frame.Text {
		f = holding
	}
	s := b.take(FromClient, op, length, f)
	if (p.refuses() || p.readies) && m.limit < p.longest { // all of it is needed, for another connection
		m.limit = p.longest
		m.long = length > int64(m.limit)
		if f == holding && !m.long {
			m.fate = holding
			s.Pass = Hold
		}
	}
	return s
}

// clientSaid judges a client's whole message.
func (b *Boundary) clientSaid(m *assembly, f found, payload []byte) (s Step) {
	p, session := b.program, b.session
	first := b.state == opening
	if first {
		fits := true
		if p.sticks() {
			s, fits = b.fitsSettings(m, f, payload)
		} else if f.class&isStart != 0 && f.tag != nil && tagSet(b.settings).has(hashOf(f.tag)) {
			// What the server may still have to say of the former session's task could be taken for this one's.
			s, fits = Step{Pass: Drop, Client: Pause, Then: Elsewhere, Reason: OtherSettings}, false
		}
		if p.refuses() || p.readies || !fits {
			session.opening = Opening{m.opcode, bytes.Clone(payload)}
		}
		if !fits {
			session.taken++
			return s
		}
		if m.long {
			b.flags &^= replay
		}
		b.state = streaming
		if p.readies {
			b.state = notReady
			s.Client, s.Timer = Pause, p.readyIn
		}
	}
	if f.doubt&p.kept != 0 && !(first && f.doubt&p.kept == isSticky) || f.class&isSticky != 0 && !first {
		b.forbidReuse(Unclean)
	}
	if p.replace && f.class&isEnd != 0 && b.flags&noReuse == 0 {
		session.taken++
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
	if f.class&isStart != 0 && !session.tasks.start(f.tag, tagSet(b.settings)) {
		b.forbidReuse(Unclean)
	}
	if f.class&isEnd != 0 {
		b.flags |= ended
	}
	b.updateInspect()
	return s
}
