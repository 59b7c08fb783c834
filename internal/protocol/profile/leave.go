package profile

import (
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file is about orderly ends. A client may vanish, or leave without its end message. Some servers crash or leak if the connection
// just closes then, so the proxy says instead of the client that the session has ended, and waits for the server's last word. That is for
// connections that serve no other session: the reset ends the session on all others.

// What stands in a text of leave.send for what the proxy must say of the session.
const (
	tagMark    = "$tag"    // the id of a task; the message is sent once for each open task
	binaryMark = "$binary" // how many binary messages the client has sent
)

// maxEndMessage is the size in bytes of the longest message that is inspected to see whether it is the client's end message, if that is
// the only reason to inspect it. End messages are short, and audio in texts is long.
const maxEndMessage = 1 << 10

// leaveProgram is the compiled leave of a profile.
type leaveProgram struct {
	send                    []Message // empty if the profile has no leave
	until                   []matcher // empty if the server closes the connection
	timeout                 time.Duration
	namesTask, countsBinary bool // a message has this placeholder
}

func newLeaveProgram(s *leaveSpec) leaveProgram {
	p := leaveProgram{send: s.send, until: s.until, timeout: s.timeout}
	for i := range s.send {
		p.namesTask = p.namesTask || s.send[i].contains(tagMark)
		p.countsBinary = p.countsBinary || s.send[i].contains(binaryMark)
	}
	return p
}

// contains reports whether the message is a text with this placeholder.
func (m *Message) contains(mark string) bool { return !m.Binary && strings.Contains(m.payload, mark) }

// with returns the message with a value in place of the placeholder.
func (m *Message) with(mark, value string) Message {
	filled := *m
	if !m.Binary {
		filled.payload = strings.ReplaceAll(m.payload, mark, value)
	}
	return filled
}

// fromClient returns the matchers that a one-shot connection needs for its leave.
func (p *leaveProgram) fromClient(s *spec) *matchSet {
	switch {
	case len(p.send) == 0:
		return newMatchSet(s.limits.Message, nil)
	case p.namesTask:
		return newMatchSet(s.limits.Message, s.tag.path, use{s.end.client, isEnd}, use{s.tag.start, isStart})
	}
	return newMatchSet(min(s.limits.Message, maxEndMessage), nil, use{s.end.client, isEnd})
}

// Leaves reports whether End would tell the server, with a message of the protocol, that the session has ended.
func (b *Boundary) Leaves(t Traffic) bool {
	_, ok := b.leaves(t)
	return ok
}

// Ended reports whether the client's latest message is its end message, as far as the profile needs to know that.
func (b *Boundary) Ended() bool { return b.flags&ended != 0 }

// leaves reports whether the server must be told that the session has ended, since the client has not said so or the server has not
// answered yet, and why the connection serves no other session.
func (b *Boundary) leaves(t Traffic) (why Reason, ok bool) {
	p := b.program
	switch {
	case len(p.leave.send) == 0, b.state != streaming && !b.mayBeFull(), t.SendingMessage, b.flags&(keepalivePending|complete) != 0,
		t.Sent <= b.session.withheld, !b.Plausible(t), p.leave.namesTask && b.session.tasks.open() == 0:
		return NoReason, false
	case b.flags&noReuse != 0 && b.reason != Unclean: // the server has failed
		return NoReason, false
	case p.reuse == OneShot:
		return Served, true
	case b.flags&noReuse != 0:
		return b.reason, true
	}
	return LeftEarly, b.leftEarly()
}

// mayBeFull reports whether the server has the session, but may still say that it is full: see timeouts.busy.
func (b *Boundary) mayBeFull() bool { return b.state == notReady && b.program.busyTime > 0 }

// beginLeave tells the server that the session has ended, unless the client has just done so, and waits for its last word.
func (b *Boundary) beginLeave(why Reason, t Traffic) Step {
	p, session := b.program, b.session
	s := Step{Then: Leaving, Reason: why, Timer: p.leave.timeout}
	session.expected = 1
	if p.leave.namesTask {
		session.expected = session.tasks.open()
	}
	if b.flags&ended == 0 {
		s.Send = b.leaveMessages(t)
	}
	b.state, b.reason = leaving, why
	b.updatePartial(leaving)
	b.updateInspect()
	return s
}

// leaveMessages returns the messages that end the session on the server.
func (b *Boundary) leaveMessages(t Traffic) (list []Message) {
	session := b.session
	for i := range b.program.leave.send {
		m := b.program.leave.send[i].with(binaryMark, strconv.FormatUint(t.Sent-min(session.texts, t.Sent), 10))
		if !m.contains(tagMark) {
			list = append(list, m)
			continue
		}
		for _, name := range session.tasks.names() {
			list = append(list, m.with(tagMark, name))
		}
	}
	return list
}

// countLastWord handles a message that came after the server was told that the session has ended.
func (b *Boundary) countLastWord(f found) Step {
	if f.class&isLast != 0 {
		if b.session.expected--; b.session.expected == 0 {
			return b.markBroken(Step{Pass: Drop}, Left)
		}
	}
	return Step{Pass: Drop}
}

// countText counts a message from the client, if the profile's leave must say how many of its messages were binary.
func (b *Boundary) countText(op frame.Opcode) {
	if b.program.leave.countsBinary && op == frame.Text {
		b.session.texts++
	}
}

// checkLeave finds problems of how to end a session on the server.
func (r *reader) checkLeave(s *spec) {
	l := &s.leave
	p := newLeaveProgram(l)
	_, own := s.own["leave"]
	switch {
	case len(l.send) == 0 && (len(l.until) > 0 || l.timeout != defaultTimeout) && own:
		r.problem(s.place("leave"), "leave needs a message: set leave: {send: ...} to what ends a session on the server, usually the client's own end message")
	case len(l.send) == 0:
		return
	case len(l.until) == 0 && len(s.end.client) > 0 && !s.end.closes:
		r.problem(s.place("leave.until", "leave"), "leave.until: close waits for the server's close, but by end.server the connection stays open: set leave.until to matchers for the server's last message")
	case p.namesTask && (len(s.tag.start) == 0 || s.tag.path == nil):
		r.problem(s.place("leave.send", "leave"), "%s in leave.send stands for a task's id: set tag: {start: ..., path: ...}", tagMark)
	case s.reuse == Tagged && !p.namesTask:
		r.problem(s.place("leave.send", "leave"), "with reuse: tagged, leave.send ends a task: use %s in it for the task's id", tagMark)
	}
	if l.timeout == 0 {
		r.problem(s.place("leave.timeout", "leave"), "leave.timeout is 0: use a duration such as 5s")
	}
}
