package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// session is a session of a stream, which finds out which audio results answer, and when that audio was due. What a server does not read cannot be sent,
// so lag counts from when audio was due, not from when it was sent. It belongs to the stream's goroutine.
type session struct {
	run       *run
	target    int // its number
	recording int
	again     bool // it is not the stream's first
	conn      *speaker.Conn
	tracker   *profile.Tracker
	replies   bool // the server replies to each message

	began, connected time.Duration // since the run began, as are all times
	spoke            bool          // audio was due, the first at first, and the last so far at last
	first, last      time.Duration
	speaks           bool // the next message is audio, due at last
	blocked          bool // the server did not take the last audio at once
	ended            bool // the end message was sent
	owed             []time.Duration
	unanswered       []piece
	answered         profile.Position
	waiting          bool // audio has come that no result has followed, the first at oldest
	oldest           time.Duration
	lags             []lag
	finals           []speaker.Message
}

// piece is a message of audio: up to where it goes, and when it was due.
type piece struct {
	to  profile.Position
	due time.Duration
}

// hold holds a session of a stream with a recording. The error says why it failed.
func (r *run) hold(stream, recording int, again bool) error {
	p := r.Profile
	s := &session{run: r, target: stream % len(r.Targets), recording: recording, again: again, began: r.now()}
	s.count(func(f *load.Figures) { f.Begun++ })
	dialing, cancel := context.WithTimeout(r.ctx, r.Connect)
	established, err := r.Targets[s.target].Dial(dialing)
	cancel()
	if s.connected = r.now(); err != nil {
		s.refused(err)
		return fmt.Errorf("connecting: %w", err)
	}
	s.connect()
	s.conn, s.tracker, s.replies = speaker.NewConn(established, r.Last), profile.NewTracker(p, p.Script().Query), p.Failover().Stall == profile.StallReplies
	s.tracker.Begin(profile.Leg{})
	defer context.AfterFunc(r.ctx, s.conn.Abort)()
	result, err := r.Recordings[recording].Speak(r.ctx, s, speaker.Options{Pace: 1, Token: rand.Uint64(), Ready: r.Connect, Last: r.Last, Due: s.due})
	if err == nil && !result.Complete {
		err = errors.New("the session did not come to its end")
	}
	err = s.conn.Masked(err)
	s.end(result, err)
	if err == nil {
		s.conn.Close(frame.NormalClosure, time.Now().Add(closeTimeout))
	} else {
		s.conn.Hang()
	}
	r.locked(func() { r.open-- })
	return err
}

// due notes that the next message is audio, and when it was due.
func (s *session) due(at time.Time) {
	s.last, s.speaks = at.Sub(s.run.began), true
	if !s.spoke {
		s.spoke, s.first = true, s.last
	}
	if !s.waiting {
		s.waiting, s.oldest = true, s.last
	}
}

// Send implements [speaker.Line].
func (s *session) Send(m speaker.Message) error {
	now, owed := s.run.now(), s.tracker.Unanswered()
	due := now
	e := s.tracker.ClientMessage(m.Opcode, m.Payload, len(m.Payload))
	if e.Kind == profile.EntryEnd {
		s.ended = true
	}
	if s.speaks {
		due = s.last
		s.unanswered = append(s.unanswered, piece{e.To, due})
	}
	s.count(func(f *load.Figures) { f.Sent++ })
	err := s.conn.Send(m)
	if s.tracker.Sent(e); s.replies && s.tracker.Unanswered() > owed {
		s.owed = append(s.owed, due)
	}
	if s.speaks {
		if !s.blocked { // otherwise it is the server that is late
			s.run.locked(func() { s.run.speech.Late.Record(int64(now - due)) })
		}
		s.speaks, s.blocked = false, s.run.now()-now > blocking
	}
	return err
}

// blocking is how long it takes at least to send what a server does not take.
const blocking = 10 * time.Millisecond

// Receive implements [speaker.Line].
func (s *session) Receive(until time.Time) (speaker.Message, error) {
	m, err := s.conn.Receive(until)
	if err != nil {
		return m, err
	}
	now, owed := s.run.now(), s.tracker.Unanswered()
	if s.tracker.ServerMessage(m.Opcode, m.Payload).Final {
		s.finals = append(s.finals, m)
	}
	s.count(func(f *load.Figures) { f.Received++ })
	switch _, _, measures := s.tracker.Behind(); {
	case s.replies:
		if s.tracker.Unanswered() < owed && len(s.owed) > 0 {
			s.sample(now, s.owed[0])
			s.owed = s.owed[1:]
		}
	case measures && s.tracker.Answered() > s.answered && len(s.unanswered) > 0:
		s.answered = s.tracker.Answered()
		for len(s.unanswered) > 1 && s.unanswered[0].to < s.answered {
			s.unanswered = s.unanswered[1:]
		}
		s.sample(now, s.unanswered[0].due)
	}
	if s.waiting && !s.ended && strings.TrimSpace(strings.Join(s.run.Recordings[s.recording].Texts(m), "")) != "" {
		s.waiting = false
		s.run.locked(func() { s.run.speech.Partial.Record(int64(now - s.oldest)) })
	}
	return m, nil
}

// sample notes a message that answers what was due at a time. The client's own pause before its end message is not the server's.
func (s *session) sample(now, due time.Duration) {
	if s.ended {
		due += s.run.Profile.Script().Pause
	}
	s.lags = append(s.lags, lag{due - s.first, now - due})
	s.count(func(f *load.Figures) { f.Latency.Record(int64(now - due)) })
	s.run.locked(func() { s.run.recent.Record(int64(now - due)) })
}

// complete notes the last message of a session, and returns how it is known which audio its results answer. If nothing else has told, the last message
// answers all.
func (s *session) complete() load.LagBy {
	switch {
	case len(s.lags) > 0 && s.replies:
		return load.LagByReplies
	case len(s.lags) > 0:
		return load.LagByTimes
	}
	s.sample(s.run.now(), s.last)
	return load.LagByLast
}
