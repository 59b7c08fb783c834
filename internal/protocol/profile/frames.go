package profile

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// Frame presents the header of a data frame, if [Boundary.Inspect] named the kind of its message when the message began. The caller
// presents no frames of other messages. op is the frame's own opcode, length is its payload's in bytes, and fin reports whether the
// frame is the message's last.
func (b *Boundary) Frame(d Direction, op frame.Opcode, length int64, fin bool) Step {
	m := &b.ensureSession().messages[d]
	if op != frame.Continuation {
		if d == FromClient {
			return b.beginClientMessage(op, length)
		}
		return b.beginServerMessage(op, length)
	}
	if m.fate.inspected() && !m.long && int64(m.total)+length > int64(m.limit) {
		return b.tooLong(d)
	}
	m.frames++
	m.total += int(min(length, maxMessage))
	return Step{Pass: b.pass(d, m.fate), Feed: m.fate.inspected() || m.fate == unseen && d == FromServer && b.state >= finishing}
}

// Feed presents a piece of a frame's payload, if the Step of Frame asked for it. key is the masking key, rotated so that its lowest
// bits belong to the piece's first byte; 0 for a payload that is not masked. end reports whether the piece is the message's last. Feed
// does not keep the payload; it may change it, but restores it before it returns.
//
// The first piece is what arrived together with the header, even if that is nothing. After ReplaceEnd and End, the caller also presents
// the rest of a message from the server that has begun, whether or not it presented the beginning.
func (b *Boundary) Feed(d Direction, payload []byte, key uint32, end bool) Step {
	m := &b.ensureSession().messages[d]
	if m.fate == unseen {
		s, pass := Step{}, b.pass(d, unseen)
		if end && d == FromServer {
			s = b.endServerMessage(m, found{}, nil)
		}
		s.Pass = pass
		return s
	}
	m.split = m.split || !end
	if !m.long && end && !m.split {
		frame.ApplyMask(payload, key)
		s := b.endMessage(d, m, payload)
		frame.ApplyMask(payload, key)
		return s
	}
	if !m.long {
		m.collect(payload, key)
	}
	if end {
		return b.endMessage(d, m, m.collected())
	}
	return Step{Pass: b.pass(d, m.fate)}
}

// pass returns what to do with the frames of a message until the message ends.
func (b *Boundary) pass(d Direction, f fate) Pass {
	switch f {
	case holding:
		return Hold
	case dropping, ignored:
		return Drop
	case unseen: // its beginning was not presented
		if b.state == idle || d == FromServer && b.state > finishing || d == FromClient && b.state >= finishing {
			return Drop
		}
	}
	return Relay
}

// endMessage handles the end of an inspected message: it matches the message and decides what to do.
func (b *Boundary) endMessage(d Direction, m *assembly, payload []byte) Step {
	set := b.program.fromServer
	if d == FromClient {
		set = b.program.fromClient
	}
	var f found
	if m.long {
		f = set.tooLong(m.opcode)
	} else {
		f = set.match(m.opcode, payload, b.session.token)
	}
	was := m.fate
	m.fate = unseen
	var s Step
	if d == FromClient {
		s = b.endClientMessage(m, f, payload)
	} else {
		s = b.endServerMessage(m, f, payload)
	}
	switch {
	case was == dropping && s.Pass == Relay:
		s.Pass = Drop
	case was == inspecting && s.Pass != Keep:
		s.Pass = Relay
	case was == holding && s.Pass == Relay && m.split:
		s.Pass = Release
		return s // keeps the buffer, for Held
	}
	m.free()
	return s
}

// tooLong stops collecting a message that turns out to be longer than any that a matcher could match.
func (b *Boundary) tooLong(d Direction) Step {
	m := &b.session.messages[d]
	m.long = true
	switch {
	case d == FromServer && (b.state == greeting || b.state == idle): // the message was to be saved for the client
		return b.markBroken(Step{Pass: Drop}, GreetingFailed)
	case d == FromClient && b.state == opening && b.needsTag():
		return b.markBroken(Step{Pass: Drop, Close: frame.MessageTooBig}, OtherSettings)
	case d == FromClient && b.state == opening && b.program.fromClient.can[m.opcode]&isSticky != 0:
		// The message may set something, but it cannot be matched, and since its beginning is held, it cannot stay unread for another
		// connection either.
		if _, ok := b.checkSettings(b.program.unreadSettings(m.opcode)); !ok {
			return b.markBroken(Step{Pass: Drop, Close: frame.MessageTooBig}, OtherSettings)
		}
	}
	if m.fate == holding && d == FromServer {
		if b.flags&silent != 0 && (b.program.mayRefuse() || b.program.hasReady) {
			b.noteServing() // its beginning reaches the client
		}
		if b.program.reuse == Tagged { // whose tag cannot be read any more
			if s := b.untagged(); s.Then == Foreign {
				m.free()
				m.fate = ignored
				return s
			}
		}
	}
	if m.fate == holding {
		m.fate, m.partial = inspecting, true
		return Step{Pass: Release, Feed: true}
	}
	m.free()
	return Step{Pass: b.pass(d, m.fate), Feed: true}
}

// Held returns the message to release or, if fin is false, the beginning of one whose further frames the caller relays as they are. The
// caller calls it once, right after the Step that says [Release]. The payload is valid until the next call.
//
// The frame for which the Step was returned is not part of such a beginning: the caller relays it as it is.
func (b *Boundary) Held(d Direction) (op frame.Opcode, payload []byte, fin bool) {
	m := &b.session.messages[d]
	return m.opcode, m.collected(), !m.partial
}

// beginInspection begins to inspect a message. It does not collect a message that is too long to match, and does not hold it either.
func (b *Boundary) beginInspection(d Direction, op frame.Opcode, length int64, f fate) Step {
	set := b.program.fromServer
	if d == FromClient {
		set = b.program.fromClient
	}
	m := &b.session.messages[d]
	m.begin(op, f, set.limit[op])
	m.total = int(min(length, maxMessage+1))
	if length > int64(m.limit) {
		m.long = true
		if m.fate == holding {
			m.fate = inspecting
		}
	}
	return Step{Pass: b.pass(d, m.fate), Feed: true}
}
