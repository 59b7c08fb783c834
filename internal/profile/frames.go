package profile

import "github.com/wsbouncer/wsbouncer/internal/frame"

// Frame presents the header of a data frame, of a message whose kind [Boundary.Inspect] named when it began; messages that it
// did not name then are not presented, nor are their further frames. op is the frame's own, length its payload's in bytes,
// and fin reports whether it is the message's last.
func (b *Boundary) Frame(d Direction, op frame.Opcode, length int64, fin bool) Step {
	m := &b.remembered().messages[d]
	if op != frame.Continuation {
		if d == FromClient {
			return b.clientBegins(op, length)
		}
		return b.serverBegins(op, length)
	}
	if m.fate.looked() && !m.long && int64(m.total)+length > int64(m.limit) {
		return b.tooLong(d)
	}
	m.total += int(min(length, maxMessage))
	return Step{Pass: b.pass(d, m.fate), Feed: m.fate.looked() || m.fate == unseen && d == FromServer && b.state >= finishing}
}

// Feed presents a piece of a frame's payload, when the Step of Frame asked for it. key is the masking key, turned to the
// piece's first byte, with its lowest bits for that byte; 0 for a payload that is not masked. end tells that the piece is the
// message's last. The payload is not kept, and is as before when Feed returns.
//
// The first piece is what was received together with the header, also when that is nothing. After ReplaceEnd and End, the rest of
// the server's message that is under way is presented as well, whether it was presented until then or not.
func (b *Boundary) Feed(d Direction, payload []byte, key uint32, end bool) Step {
	m := &b.remembered().messages[d]
	if m.fate == unseen {
		s, pass := Step{}, b.pass(d, unseen)
		if end && d == FromServer {
			s = b.serverSaid(m, found{}, nil)
		}
		s.Pass = pass
		return s
	}
	m.split = m.split || !end
	if !m.long && end && !m.split {
		frame.ApplyMask(payload, key)
		s := b.told(d, m, payload)
		frame.ApplyMask(payload, key)
		return s
	}
	if !m.long {
		m.collect(payload, key)
	}
	if end {
		return b.told(d, m, m.collected())
	}
	return Step{Pass: b.pass(d, m.fate)}
}

// pass returns what becomes of the frames of a message while it is under way.
func (b *Boundary) pass(d Direction, f fate) Pass {
	switch f {
	case holding:
		return Hold
	case dropping, ignored:
		return Drop
	case unseen: // it began before anybody looked
		if b.state == idle || d == FromServer && b.state > finishing || d == FromClient && b.state >= finishing {
			return Drop
		}
	}
	return Relay
}

// told judges a message that has been seen to its end.
func (b *Boundary) told(d Direction, m *assembly, payload []byte) Step {
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
		s = b.clientSaid(m, f, payload)
	} else {
		s = b.serverSaid(m, f, payload)
	}
	switch {
	case was == dropping && s.Pass == Relay:
		s.Pass = Drop
	case was == looking && s.Pass != Keep:
		s.Pass = Relay
	case was == holding && s.Pass == Relay && m.split:
		s.Pass = Release
		return s // with the buffer, for Held
	}
	m.free()
	return s
}

// tooLong lets go of a message that turns out to be longer than anything that could be told.
func (b *Boundary) tooLong(d Direction) Step {
	m := &b.session.messages[d]
	m.long = true
	switch {
	case d == FromServer && (b.state == greeting || b.state == idle): // it was to be kept for the client
		return b.breaks(Step{Pass: Drop}, GreetingFailed)
	case d == FromClient && b.state == opening && b.program.fromClient.can[m.opcode]&isSticky != 0:
		// It may set something, and its beginning is held, so it can neither be kept for another connection nor be told.
		if _, fits := b.fit(unknownSettings); !fits {
			return b.breaks(Step{Pass: Drop, Close: frame.MessageTooBig}, OtherSettings)
		}
	}
	if m.fate == holding {
		m.fate, m.partial = looking, true
		return Step{Pass: Release, Feed: true}
	}
	m.free()
	return Step{Pass: b.pass(d, m.fate), Feed: true}
}

// Held returns the message that is to be released, or with fin false the beginning of one whose further frames are relayed as
// they are. It is to be asked once, right after the Step that says [Release], and the payload is valid until the next call.
//
// The frame that the Step came for is not part of a beginning: it goes on as it is.
func (b *Boundary) Held(d Direction) (op frame.Opcode, payload []byte, fin bool) {
	m := &b.session.messages[d]
	return m.opcode, m.collected(), !m.partial
}

// take begins to look at a message, or does not when its length tells that it is nothing of interest.
func (b *Boundary) take(d Direction, op frame.Opcode, length int64, f fate) Step {
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
			m.fate = looking
		}
	}
	return Step{Pass: b.pass(d, m.fate), Feed: true}
}
