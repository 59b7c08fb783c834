package verify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// link is a connection as the proxy pools it: what passes is presented to its boundary. It belongs to the goroutine of the run.
type link struct {
	conn     *speaker.Conn
	boundary profile.Boundary
	traffic  profile.Traffic
	timer    time.Time // when the boundary wants to be called; zero for never
	then     profile.Then
	reason   profile.Reason
	paused   bool // the client's messages wait
	inQueue  []speaker.Message
	closing  *speaker.CloseError // what the client gets after inQueue
	lost     error
	heard    int64 // bytes of audio in earlier sessions
	journal  *journal
	// direct tells that nothing is presented to the boundary: the connection is a client's own.
	direct bool
}

// errElsewhere is returned when the boundary wants another connection for a session.
var errElsewhere = errors.New("the connection cannot serve the session")

// errFullLink is returned when the server has said on a new connection that it is full.
var errFullLink = errors.New("the connection cannot be used: busy")

// greet waits until the connection is ready for its first session.
func (l *link) greet(until time.Time) error {
	l.apply(l.boundary.Dialed())
	return l.settle(until)
}

// settle presents what the server sends until the connection is ready for a session. The error says why it never will be.
func (l *link) settle(until time.Time) error {
	for l.then != profile.Ready {
		if l.then == profile.Broken {
			if l.reason == profile.Busy {
				return errFullLink
			}
			return fmt.Errorf("the connection cannot be used: %v", l.reason)
		}
		if err := l.next(until); err != nil {
			return err
		}
	}
	return nil
}

// quiet presents what the server sends to an idle connection, for a while. It returns an error if that is anything.
func (l *link) quiet(d time.Duration) error {
	for until := time.Now().Add(d); ; {
		m, err := l.conn.Receive(until)
		if errors.Is(err, speaker.ErrTimeout) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("between sessions: %w", l.conn.Masked(err))
		}
		l.journal.received(l.masked(m))
		if l.present(profile.FromServer, m); l.then == profile.Broken {
			return fmt.Errorf("%v, while no session was on the connection", l.reason)
		}
	}
}

// masked returns a message of the server as it may be shown.
func (l *link) masked(m speaker.Message) speaker.Message {
	m.Payload = []byte(l.conn.Mask(string(m.Payload)))
	return m
}

// begin begins a session.
func (l *link) begin() {
	if l.direct {
		return
	}
	l.traffic, l.paused, l.inQueue, l.closing = profile.Traffic{}, false, nil, nil
	for op, payload := range l.boundary.Greeting() {
		l.inQueue = append(l.inQueue, speaker.Message{Opcode: op, Payload: payload})
	}
	l.then = profile.Continue
	l.apply(l.boundary.Begin(rand.Uint64()))
}

// end ends the session, and waits until the connection is ready for the next one.
func (l *link) end(until time.Time) error {
	if l.lost != nil {
		return l.lost
	}
	l.then = profile.Continue
	l.apply(l.boundary.End(l.traffic))
	return l.settle(until)
}

// next waits for the server's next message, or for the boundary's timer.
func (l *link) next(until time.Time) error {
	wait := until
	if !l.timer.IsZero() && l.timer.Before(wait) {
		wait = l.timer
	}
	m, err := l.conn.Receive(wait)
	switch {
	case errors.Is(err, speaker.ErrTimeout) && wait.Before(until):
		l.timer = time.Time{}
		l.apply(l.boundary.Timer(true))
		return nil
	case errors.Is(err, speaker.ErrTimeout):
		return err
	case err != nil:
		l.fail(l.conn.Masked(err))
		return nil
	}
	l.journal.received(l.masked(m))
	if l.direct {
		l.inQueue = append(l.inQueue, m)
		return nil
	}
	inSession := l.then == profile.Continue
	if inSession {
		t := l.traffic
		if t.ReceivingMessage = true; !l.boundary.Plausible(t) {
			l.then, l.reason = profile.Foreign, profile.Unsolicited
			l.lost = errors.New("the server sent a message that no client asked for")
			return nil
		}
	}
	l.traffic.Received++
	finishing := l.then
	if l.present(profile.FromServer, m) && (inSession || finishing == profile.Replaced) {
		l.inQueue = append(l.inQueue, m)
	}
	return nil
}

// fail notes that the connection has ended.
func (l *link) fail(err error) {
	code := frame.CloseCode(0)
	closed, ok := errors.AsType[*speaker.CloseError](err)
	if ok {
		code = closed.Code
		l.journal.note("received close %v", code)
	} else {
		l.journal.note("the connection ended: %v", err)
	}
	l.lost = err
	if l.direct {
		l.closing = closed
		return
	}
	if l.then == profile.Continue {
		l.closing = closed
	}
	l.apply(l.boundary.Closed(code))
}

// present presents a message, and reports whether it passes to the other side.
func (l *link) present(d profile.Direction, m speaker.Message) (passes bool) {
	if l.boundary.Inspect(d)&(1<<m.Opcode) == 0 {
		return true
	}
	s := l.boundary.Frame(d, m.Opcode, int64(len(m.Payload)), true)
	l.apply(s)
	if s.Feed {
		s = l.boundary.Feed(d, m.Payload, 0, true)
		l.apply(s)
	}
	return s.Pass == profile.Relay || s.Pass == profile.Release
}

// apply does what a step says.
func (l *link) apply(s profile.Step) {
	for i := range s.Send {
		m := speaker.Message{Opcode: frame.Text, Payload: s.Send[i].Append(nil, l.boundary.Token())}
		if s.Send[i].Binary {
			m.Opcode = frame.Binary
		}
		if m.Opcode == frame.Binary { // the server counts silence of the reset as audio
			l.heard += int64(len(m.Payload))
		}
		l.journal.sent(m, "by the proxy")
		if err := l.conn.Send(m); err != nil && l.lost == nil {
			l.lost = err
		}
	}
	switch {
	case s.Timer == profile.StopTimer:
		l.timer = time.Time{}
	case s.Timer > 0:
		l.timer = time.Now().Add(s.Timer)
	}
	switch s.Client {
	case profile.Pause:
		l.paused = true
	case profile.Resume:
		l.paused = false
	}
	if s.Then != profile.Continue {
		l.then, l.reason = s.Then, s.Reason
		if s.Then == profile.Ready && l.timer.IsZero() {
			l.paused = false
		}
	}
	if s.Close != 0 {
		l.closing = &speaker.CloseError{Code: s.Close}
	}
}

// Send implements [speaker.Line].
func (l *link) Send(m speaker.Message) error {
	for l.paused && l.then != profile.Elsewhere { // otherwise the server may close meanwhile
		if err := l.next(time.Now().Add(pausedAtMost)); err != nil {
			return err
		}
		if l.lost != nil {
			return l.lost
		}
	}
	if l.then == profile.Elsewhere {
		return fmt.Errorf("%w: %v", errElsewhere, l.reason)
	}
	if l.lost != nil {
		return l.lost
	}
	if l.direct {
		l.journal.sent(m, "")
		return l.conn.Send(m)
	}
	passes := l.present(profile.FromClient, m)
	l.traffic.Sent++
	switch l.then {
	case profile.Replaced:
		l.journal.sent(m, "not passed on: the reset takes its place")
		l.apply(l.boundary.ReplaceEnd(l.traffic))
		return nil
	case profile.Elsewhere:
		return fmt.Errorf("%w: %v", errElsewhere, l.reason)
	}
	if !passes {
		return nil
	}
	l.journal.sent(m, "")
	return l.conn.Send(m)
}

// pausedAtMost bounds the wait for a server that is not ready; profiles have shorter bounds.
const pausedAtMost = time.Minute

// Receive implements [speaker.Line].
func (l *link) Receive(until time.Time) (speaker.Message, error) {
	for {
		switch {
		case len(l.inQueue) > 0:
			m := l.inQueue[0]
			l.inQueue = l.inQueue[1:]
			return m, nil
		case l.closing != nil:
			return speaker.Message{}, l.closing
		case l.lost != nil:
			return speaker.Message{}, l.lost
		case l.then == profile.Elsewhere:
			return speaker.Message{}, fmt.Errorf("%w: %v", errElsewhere, l.reason)
		case l.then == profile.Broken:
			return speaker.Message{}, fmt.Errorf("the connection cannot be used: %v", l.reason)
		}
		if err := l.next(until); err != nil {
			return speaker.Message{}, err
		}
	}
}
