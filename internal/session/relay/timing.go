package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Timing is how the sides of a session have responded to each other, at one instant. All of it is 0 while the session waits for a connection.
type Timing struct {
	// Unreplied is for how long the first reply is owed; 0 if it has come, or if the client has not asked for any.
	Unreplied time.Duration
	// Lag is the age of the oldest audio or message that the server has got and not answered, by what the profile's answers tell about that; where
	// results come for speech only, of the speech that is known of. Where they tell nothing, or are not followed, it is how long the server has sent
	// nothing since the client sent something.
	Lag time.Duration
	// Owed is for how long the server has owed a result that it surely owes, by the profile's sign of a stall; 0 if it owes none, or may not.
	Owed time.Duration
	// Late is how late results come, if Timed. That is known only of services with a limit on it, where the profile's answers tell it, and while the
	// client reads.
	Late  time.Duration
	Timed bool
	// ClientSilent and ServerSilent are how long ago the side has sent data, or the session began.
	ClientSilent, ServerSilent time.Duration
	// Sending: the client sends, and reads what it gets.
	Sending bool
}

// sendsWithin is how long a client that sends audio may send nothing and still counts as sending.
const sendsWithin = 1500 * time.Millisecond

// timing is called on the session's loop.
func (s *Session) timing(now loop.Instant) (t Timing) {
	conn := s.leg.conn
	if conn == nil {
		return t
	}
	t.ClientSilent, t.ServerSilent = time.Duration(now-s.activity.client), time.Duration(now-s.activity.server)
	blocked := s.leg.up.to.Pending() > 0 // by the server, so the client cannot send
	reads := !conn.Stream().Paused() && s.client.Pending() == 0
	t.Sending = s.life.state == relaying && reads && (blocked || t.ClientSilent < sendsWithin)
	if s.reply == awaited {
		t.Unreplied = time.Duration(now - s.account.spoke)
	}
	silent := time.Duration(0)
	if s.activity.asked != 0 {
		silent = time.Duration(now - s.activity.asked)
	}
	switch f := s.failover; {
	case s.life.state == completing && reads:
		t.Owed = silent // the last result, or the acknowledgement of the reset
	case s.life.state != relaying || !reads:
	case f != nil && f.watch != nil:
		t.Owed = f.watch.Quiet()
	case surely(conn.Profile().Failover().Stall) && s.scanner.AtMessageBoundary() && (t.Sending || conn.Profile().AnswersAll()):
		t.Owed = silent
	}
	t.Lag = max(s.lag(silent, &t, now), t.Owed)
	if reads {
		t.Late, t.Timed = s.failover.lateness(&t, now)
	}
	return t
}

// lag returns the age of the oldest audio or message that is not answered, of a server that has been silent for so long.
func (s *Session) lag(silent time.Duration, t *Timing, now loop.Instant) time.Duration {
	f := s.failover
	if f == nil {
		return silent
	}
	behind, unanswered, ok := f.behind(t.ClientSilent, now)
	switch {
	case !ok:
		return silent
	case !unanswered || s.account.spoke == 0:
		return 0
	}
	lag := max(behind, min(silent, time.Duration(now-s.account.spoke)))
	if s.leg.conn.Profile().Failover().Stall != profile.StallSpeech {
		return lag
	}
	// Silence is not answered: what counts is speech, which partial results are about, or which the watch has heard.
	switch {
	case f.watch != nil && f.watch.AnswersAll():
		return silent
	case f.partial != 0:
		return min(lag, time.Duration(now-f.partial))
	case f.watch != nil:
		return t.Owed
	}
	return min(lag, silent)
}

// behind returns the age of the oldest audio that is not answered, if the client has sent nothing for so long, and whether any is not; ok is false
// if that is not known. Clients are taken to send audio as fast as it was spoken: what lies behind by five seconds came five seconds before the
// last. What came faster is not late before it would have come.
func (f *recovery) behind(clientSilent time.Duration, now loop.Instant) (age time.Duration, unanswered, ok bool) {
	age, unanswered, ok = f.tracker.Behind()
	answered := f.tracker.Duration(int64(f.tracker.Received())) - age
	return min(age+clientSilent, max(0, time.Duration(now-f.session.account.spoke)-answered)), unanswered, ok
}

// lateFor is for how long the last final result shows how late results come.
const lateFor = 15 * time.Second

// noteLate notes how late a final result has come, for services that limit that. Audio that another server had got says nothing.
func (f *recovery) noteLate() {
	s := f.session
	if s.record.Service.LagLimit == 0 || f.machine.Behind() {
		return
	}
	now := s.client.Loop().Now()
	if age, _, ok := f.behind(time.Duration(now-s.activity.client), now); ok {
		f.late, f.lateAt = age, now
	}
}

// lateness returns how late results come: how late the last final one came, or what has been owed for longer. Where the server replies to each
// message, that is the lag. ok is false if it is not known.
func (f *recovery) lateness(t *Timing, now loop.Instant) (late time.Duration, ok bool) {
	if f == nil || f.session.record.Service.LagLimit == 0 || f.machine.Behind() || f.session.life.state != relaying {
		return 0, false
	}
	if says := f.session.leg.conn.Profile().Failover(); says.Stall == profile.StallReplies {
		return t.Lag, true
	} else if !says.TellsLag() {
		return 0, false
	}
	if late = t.Owed; f.lateAt > 0 && time.Duration(now-f.lateAt) < lateFor {
		late = max(late, f.late)
	}
	return late, true
}

// Late returns how late the session's results come; 0 if that is not known. It is called on the session's loop.
func (s *Session) Late() time.Duration { return s.timing(s.client.Loop().Now()).Late }
