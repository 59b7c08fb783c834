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
	return t
}

// lag returns the age of the oldest audio or message that is not answered, of a server that has been silent for so long. Clients are taken to send
// audio as fast as it was spoken: what lies behind by five seconds came five seconds before the last.
func (s *Session) lag(silent time.Duration, t *Timing, now loop.Instant) time.Duration {
	f := s.failover
	if f == nil {
		return silent
	}
	behind, unanswered, ok := f.tracker.Behind()
	switch {
	case !ok:
		return silent
	case !unanswered || s.account.spoke == 0:
		return 0
	}
	lag := min(max(behind+t.ClientSilent, silent), time.Duration(now-s.account.spoke))
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
