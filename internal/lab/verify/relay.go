package verify

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
)

// relay is a session as the proxy relays it: everything passes its tracker, and it may continue on another connection. It belongs to
// the goroutine of the run.
type relay struct {
	profile *profile.Profile
	tracker *profile.Tracker
	link    *link
	cut     int // after this many messages of audio the session moves; 0 for never
	other   func() (*link, error)

	entries  []entry
	cursor   int
	audio    int
	from     profile.Position
	caughtUp bool
	moved    bool
	inQueue  []speaker.Message
	finals   []speaker.Message // results that are no longer revised, as the client gets them
	signs    []time.Duration   // when messages came that show that the server works
	began    time.Time
	problem  string // what is wrong with the tracker's bookkeeping
	answered profile.Position
}

type entry struct {
	profile.Entry
	message speaker.Message
}

// newRelay begins a session on a connection.
func newRelay(p *profile.Profile, l *link) *relay {
	r := &relay{profile: p, tracker: profile.NewTracker(p, p.Script().Query), link: l, caughtUp: true, began: time.Now()}
	l.begin()
	r.tracker.Begin(profile.Leg{Heard: l.heard})
	return r
}

// Send implements [speaker.Line].
func (r *relay) Send(m speaker.Message) error {
	e := entry{r.tracker.ClientMessage(m.Opcode, m.Payload, len(m.Payload)), m}
	if e.Kind == profile.EntryAudio {
		r.audio++
	}
	r.entries = append(r.entries, e)
	if r.cut > 0 && r.audio > r.cut && !r.moved {
		return r.move()
	}
	return r.deliver()
}

// deliver sends what the present server has not got.
func (r *relay) deliver() error {
	began, first := time.Now(), r.tracker.Delivered()
	for ; r.cursor < len(r.entries); r.cursor++ {
		e := &r.entries[r.cursor]
		if !r.tracker.Resend(e.Entry) {
			continue
		}
		message := e.message
		if r.moved && e.Kind == profile.EntryAudio && e.From < r.from && r.from < e.To {
			cut, ok := r.tracker.Cut(nil, e.Entry, message.Payload, r.from)
			if !ok {
				return errors.New("a message of audio cannot be cut")
			}
			message.Payload = cut
		}
		if pace := r.profile.Failover().Pace; r.moved && !r.caughtUp && pace > 0 {
			due := began.Add(time.Duration(float64(r.tracker.Duration(int64(r.tracker.Delivered()-first))) / pace))
			if err := r.listen(due); err != nil {
				return err
			}
		}
		if err := r.link.Send(message); err != nil {
			return err
		}
		r.tracker.Sent(e.Entry)
	}
	if !r.caughtUp {
		r.caughtUp = true
		r.tracker.CaughtUp()
	}
	return nil
}

// move continues with another connection, from the answered point on.
func (r *relay) move() error {
	r.moved = true
	r.link.journal.note("the connection is cut, and the session moves; answered: %v of %v",
		r.tracker.Duration(int64(r.tracker.Answered())), r.tracker.Duration(int64(r.tracker.Delivered())))
	r.link.conn.Hang()
	next, err := r.other()
	if err != nil {
		return err
	}
	r.link = next
	next.begin()
	r.from = r.resumeAt()
	r.tracker.Begin(profile.Leg{From: r.from, Heard: next.heard})
	r.caughtUp, r.cursor = false, 0
	configured := len(r.profile.Script().Start) == 0 // nothing is needed for it
	for op, payload := range r.tracker.Configuration() {
		if err := next.Send(speaker.Message{Opcode: op, Payload: payload}); err != nil {
			return err
		}
		r.tracker.Sent(profile.Entry{Kind: profile.EntryConfiguration})
		configured = true
	}
	if configured { // otherwise what begins the session has its place among what is sent again
		if err := r.awaitReady(); err != nil {
			return err
		}
	}
	return r.deliver()
}

// awaitReady waits until the next server takes audio, as its client did at first.
func (r *relay) awaitReady() error {
	script := r.profile.Script()
	if !script.AwaitsReady() {
		return nil
	}
	for until := time.Now().Add(readyAtMost); ; {
		m, err := r.link.Receive(until)
		if err != nil {
			return fmt.Errorf("the next server is not ready: %w", err)
		}
		r.judge(m)
		if script.IsReady(m.Opcode, m.Payload, 0) {
			return nil
		}
	}
}

// readyAtMost bounds the wait for a server to be ready for a session that moves to it.
const readyAtMost = 30 * time.Second

// resumeAt returns the first audio that the next server gets.
func (r *relay) resumeAt() profile.Position {
	answered := r.tracker.Answered()
	for i := range r.entries {
		e := &r.entries[i]
		if e.Kind != profile.EntryAudio || r.tracker.Done(e.Entry) {
			continue
		}
		if e.From >= answered || answered >= e.To {
			return e.From
		}
		if _, ok := r.tracker.Cut(nil, e.Entry, e.message.Payload, answered); ok {
			return answered
		}
		return e.From
	}
	return r.tracker.Received()
}

// listen receives messages until a time.
func (r *relay) listen(until time.Time) error {
	for {
		m, err := r.link.Receive(until)
		if errors.Is(err, speaker.ErrTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
		r.judge(m)
	}
}

// judge has the tracker judge a message of the server.
func (r *relay) judge(m speaker.Message) {
	j := r.tracker.ServerMessage(m.Opcode, m.Payload)
	if j.Sign {
		r.signs = append(r.signs, time.Since(r.began))
	}
	now := r.tracker.Answered()
	switch {
	case now < r.answered:
		r.problem = fmt.Sprintf("the answered point went back from %v to %v", r.tracker.Duration(int64(r.answered)), r.tracker.Duration(int64(now)))
	case now > r.tracker.Delivered():
		r.problem = fmt.Sprintf("a result answers audio up to %v, but only %v were sent", r.tracker.Duration(int64(now)), r.tracker.Duration(int64(r.tracker.Delivered())))
	}
	r.answered = now
	if !j.Pass {
		return
	}
	m.Payload = append([]byte(nil), j.Payload...)
	if j.Final {
		r.finals = append(r.finals, m)
	}
	r.inQueue = append(r.inQueue, m)
}

// Receive implements [speaker.Line].
func (r *relay) Receive(until time.Time) (speaker.Message, error) {
	for len(r.inQueue) == 0 {
		m, err := r.link.Receive(until)
		if err != nil {
			return speaker.Message{}, err
		}
		r.judge(m)
	}
	m := r.inQueue[0]
	r.inQueue = r.inQueue[1:]
	return m, nil
}
