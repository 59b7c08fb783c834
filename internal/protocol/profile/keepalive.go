package profile

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file is about keepalives during a session, whose client is silent. The server's answer to one reaches no client and counts for nothing.
// (reset.go has those of idle connections.)

// Answered is the size of a message that has answered a keepalive. The zero value stands for none.
type Answered struct {
	Opcode        frame.Opcode
	Frames, Bytes int // Bytes of payload
}

// SessionKeepalive returns after what time of silence a server is to get a keepalive during a session; 0 for never, and then why.
func (p *Profile) SessionKeepalive() (every time.Duration, why string) {
	switch s := p.spec; {
	case len(s.keepalive.send) == 0:
		return 0, "it has no keepalive.send"
	case p.program.silence:
		return 0, "its keepalive is audio, which would shift the times in results"
	}
	return p.spec.keepalive.every, ""
}

// isAudio reports whether a server takes the message for audio of the session.
func (p *trackerProgram) isAudio(m *Message) bool {
	op := frame.Text
	if m.Binary {
		op = frame.Binary
	}
	return m.zeros > 0 || p.fromClient.match(op, m.Append(nil, 0), 0).class&isAudio != 0
}

// tellsTimes reports whether messages of the server have times that count from the beginning of the audio.
func (f *Failover) tellsTimes() bool {
	for i := range f.answered {
		if f.answered[i].isTimed() {
			return true
		}
	}
	return f.Continues || len(f.shift) > 0
}

// KeepAlive returns a Step with the profile's keepalive, if the session's server may get it now. t is what has passed. The caller has seen that
// [Profile.SessionKeepalive] allows it.
func (b *Boundary) KeepAlive(t Traffic) Step {
	p := b.program
	switch {
	case b.state != opening && b.state != streaming, b.flags&(keepalivePending|ended) != 0, t.SendingMessage:
		return Step{}
	case p.reuse == Lockstep && (b.session.keepalives > 0 || b.Owed(t)): // so that the server's next message is the answer
		return Step{}
	}
	if p.hasAlive {
		b.session.keepalives++
		b.updateInspect()
	}
	return Step{Send: p.alive}
}

// awaitsAlive reports whether the server's next message answers a keepalive of the session: a lockstep server answers in order.
func (b *Boundary) awaitsAlive() bool { return b.program.reuse == Lockstep && b.session.keepalives > 0 }

// beginMaybeAlive begins a message that may answer a keepalive of the session. ok is false if it cannot.
func (b *Boundary) beginMaybeAlive(op frame.Opcode, length int64) (s Step, ok bool) {
	set := b.program.fromServer
	switch {
	case b.awaitsAlive():
		return b.beginInspection(FromServer, op, length, dropping), true
	case b.session.keepalives > 0 && set.can[op]&isAlive != 0 && length <= int64(set.limit[op]):
		return b.beginInspection(FromServer, op, length, holding), true
	}
	return Step{}, false
}

// endAlive handles the answer to a keepalive of the session, or what a lockstep server has sent instead.
func (b *Boundary) endAlive(f found) Step {
	m := &b.session.messages[FromServer]
	b.session.keepalives--
	b.updateInspect()
	if f.class&isAlive == 0 {
		b.forbidReuse(Unsolicited)
		return Step{Pass: Drop, Then: Foreign, Reason: Unsolicited}
	}
	return Step{Pass: Drop, Answered: Answered{m.opcode, int(m.frames), m.total}}
}
