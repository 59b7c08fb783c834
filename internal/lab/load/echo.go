package load

import (
	"math"
)

// writeSize is roughly how many bytes a client that has fallen behind writes at once.
const writeSize = 64 << 10

// echo is the talk of a client whose server answers every message with the same message. Messages are numbered from 0. The
// client sends the first one of a session as soon as it is connected; the others are due at regular intervals. So the number of
// a message tells when it was due, and the client keeps nothing for a message on its way.
type echo struct {
	*client
	first uint32 // the number of the session's first message
	asked uint32 // messages that have become due
	sent  uint32
	next  uint32 // the number of the next echo
	gaps  uint32 // messages of the session whose echoes were skipped
	// overdue is the first message that account counted as lost, and whose echo may still arrive before the connection is closed.
	overdue uint32
	origin  int64 // when the message after the first was due
	reply   reply
}

// opened implements talk.
func (e *echo) opened() {
	e.first = e.asked
	e.gaps, e.overdue = 0, math.MaxUint32
	e.asked++
	e.send()
}

// begin implements talk.
func (e *echo) begin() {}

// due implements talk.
func (e *echo) due(at int64) {
	if e.asked == e.first+1 {
		e.origin = at
	}
	e.asked++
	e.send()
}

// ready implements talk.
func (e *echo) ready() { e.send() }

// send sends what is due, as far as the socket takes it.
func (e *echo) send() {
	l := e.lane
	for e.sent < e.asked && e.conn.Pending() == 0 && !e.closeSent && !l.sendsEnded && !e.full() {
		b := l.buffer[:0]
		for e.sent < e.asked && !e.full() && (len(b) == 0 || len(b)+l.script.frameSize() <= writeSize) {
			b = l.script.append(b, e.id, e.sent)
			if e.sent != e.first {
				e.counts().Sent++
			}
			e.sent++
		}
		l.buffer = b[:0]
		e.conn.Write(b)
	}
}

// full reports whether as many messages are on their way as the options allow.
func (e *echo) full() bool {
	return e.lane.window > 0 && e.sent-e.next >= e.lane.window
}

// take implements talk.
func (e *echo) take(p piece, now int64) {
	l := e.lane
	if p.first {
		e.reply.begin()
		if p.opcode != l.script.opcode {
			e.reply.wrong = wrongKind
		}
	}
	e.reply.take(l.script, e.id, p.payload)
	if p.last {
		e.judge(now)
		if e.sent < e.asked {
			e.send()
		}
		if l.draining {
			l.settle(e.client)
		}
	}
}

// judge checks and counts a complete echo.
func (e *echo) judge(now int64) {
	counts, r := e.counts(), &e.reply
	known := r.end(e.lane.script)
	switch {
	case !known:
	case r.number >= e.sent:
		r.wrong = notSent
	case r.number < e.first:
		r.wrong = earlier
	case e.overdue <= r.number && r.number < e.next:
		e.overdue = r.number + 1
		return
	case r.number < e.next && e.gaps > 0: // it was counted as lost when it was skipped
		e.gaps--
		counts.late()
		return
	case r.number < e.next:
		r.wrong = repeated
	default:
		if passed := r.number - e.next; passed > 0 {
			e.gaps += passed
			counts.lose(int64(passed))
		}
		e.next = r.number + 1
		e.markGreeted()
	}
	switch {
	case r.wrong != "":
		counts.Mixed++
		counts.error(r.wrong)
	case r.number == e.first:
		e.recordFirstAnswer(now - e.began)
	default:
		counts.Received++
		counts.Latency.Record(now - e.origin - int64(r.number-e.first-1)*int64(e.lane.period))
	}
}

// halt implements talk.
func (e *echo) halt() {}

// finished implements talk.
func (e *echo) finished() bool {
	return e.next >= e.asked || e.lane.sendsEnded && e.next >= e.sent
}

// inSession implements talk.
func (e *echo) inSession() bool { return true }

// account implements talk.
func (e *echo) account() {
	e.counts().lose(int64(e.sent - e.next))
	e.overdue = e.next
	e.forget()
}

// failed implements talk.
func (e *echo) failed() {
	e.counts().Abandoned += int64(e.sent - e.next)
	e.forget()
}

// forget stops waiting for echoes, and counts the messages that were due but not sent. The numbers of the next session
// continue after those that were sent, so that an echo that reaches another session can be recognized.
func (e *echo) forget() {
	e.counts().Unsent += int64(e.asked - e.sent)
	e.asked, e.next = e.sent, e.sent
}

// ended implements talk.
func (e *echo) ended() {}

// refused implements talk. A client whose session lasts as long as the run does not connect again.
func (e *echo) refused(string) {}
