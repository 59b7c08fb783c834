package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file is about clients that are silent: their servers get the profile's keepalives, and sessions without audio end.

// silence is what a session needs for a client that is silent. It is owned by the session's loop.
type silence struct {
	keepalive loop.Timer // of the leased connection: when the server may need a keepalive
	audio     loop.Timer // of the client's: the next check for audio
	heard     progress   // of the client's audio
	stalled   loop.Timer // of the client's: when to look at a server that takes nothing
	taken     uint64     // by the server when that was set
	always    bool       // keepalives are sent although the service does not ask for them
}

// silence returns what the session needs for a client that is silent, after creating it if there is none.
func (s *Session) silence() *silence {
	if s.account.silence == nil {
		s.account.silence = new(silence)
	}
	return s.account.silence
}

// KeepServerAlive has the server get the profile's keepalives from now on while nothing comes from the client, whether or not the service asks for
// them; with false, only if it does. It is called on the session's loop, in any state.
func (s *Session) KeepServerAlive(always bool) {
	q := s.silence()
	if q.always = always; s.leg.conn != nil && !q.keepalive.Active() {
		s.scheduleKeepalive(s.keepaliveEvery())
	}
}

// keepaliveEvery returns after what time of silence the server of the leased connection is to get a keepalive; 0 for never.
func (s *Session) keepaliveEvery() time.Duration {
	if q := s.account.silence; !s.record.Service.Keepalive && (q == nil || !q.always) {
		return 0
	}
	every, _ := s.leg.conn.Profile().SessionKeepalive()
	return every
}

func (s *Session) scheduleKeepalive(left time.Duration) {
	if left > 0 {
		s.silence().keepalive.Set(s.leg.conn.Stream(), left, 0)
	}
}

// startKeepalives begins with the keepalives of a connection that is about to serve the session. It may have got one while it was idle.
func (s *Session) startKeepalives(conn *backend.Conn) {
	every := s.keepaliveEvery()
	if due := conn.KeepaliveDue(); every > 0 && due > 0 {
		every = min(every, max(due.Until(), 1))
	}
	s.scheduleKeepalive(every)
}

// stopKeepalives ends that. The lease is about to end.
func (s *Session) stopKeepalives() {
	if q := s.account.silence; q != nil {
		q.keepalive.Stop()
	}
}

// keepaliveRetries is how often within its interval a keepalive is tried again that could not be sent.
const keepaliveRetries = 4

// keepServerAlive is called by the timer: it sends the server a keepalive if the client has been silent for long enough, and the server takes
// everything that was sent. It goes between two messages of the client, and counts as none.
func (s *Session) keepServerAlive() {
	every := s.keepaliveEvery()
	if every == 0 { // the client has come back meanwhile
		return
	}
	left := every - time.Duration(loop.Now()-s.activity.client)
	if left <= 0 {
		left = every / keepaliveRetries
		if up, conn := &s.leg.up, s.leg.conn; !up.closed && up.to.Pending() == 0 && (s.failover == nil || s.failover.atEnd()) {
			if step := conn.Boundary().KeepAlive(s.leg.traffic(s.sentNow())); len(step.Send) > 0 {
				left = every
				s.act(step)
			}
		}
	}
	s.scheduleKeepalive(left)
}

// awaitAudio begins to look whether the client sends audio, if the service limits the time without.
func (s *Session) awaitAudio() {
	if limit := s.record.Service.AudioIdle; limit > 0 {
		s.silence().audio.Set(s.client, limit/idleChecks, audioCheck)
	}
}

// checkAudio ends the session if no audio has come for as long as the service allows. Time does not count in which the client is not read.
func (s *Session) checkAudio() {
	switch {
	case s.life.state > moving: // it ends
	case resume.Of(s.client).Parked(): // Reconnect is the limit
		s.awaitAudio()
	case s.account.silence.heard.look(s.audioCount(), s.life.state == moving || s.client.Paused()) >= idleChecks:
		s.limitEnds(limits.Cause{Limit: limits.AudioIdle})
		s.End(meter.Limit, frame.PolicyViolation, "audio idle limit reached")
	default:
		s.awaitAudio()
	}
}

// audioCount is a count that changes while audio comes from the client.
func (s *Session) audioCount() (n uint64) {
	from := &s.scanner
	gathered, kind := resume.Of(s.client).UnderWay()
	kinds := s.record.Service.Profile.Failover().AudioKinds()
	if kinds&(1<<frame.Text) != 0 {
		n += from.Text
	}
	if kinds&(1<<frame.Binary) != 0 {
		n += from.Bytes - from.Text
	}
	if kinds == 0 && s.failover != nil {
		n = s.failover.tracker.Spoken()
		if !from.AtMessageBoundary() { // it may be audio
			n += from.Bytes
		}
	}
	if kinds == 0 && !kind.IsControl() || kinds&(1<<kind) != 0 {
		n += uint64(gathered)
	}
	return n
}

// takeTimers takes the timers off their loop before the session moves to another one, and putTimers puts them there. q may be nil.
func (q *silence) takeTimers() {
	if q != nil {
		q.keepalive.Take()
		q.stalled.Take()
		q.audio.Take()
	}
}

func (q *silence) putTimers() {
	if q != nil {
		q.keepalive.Put()
		q.stalled.Put()
		q.audio.Put()
	}
}

// stopTimers stops all of them: the session has ended. q may be nil.
func (q *silence) stopTimers() {
	if q != nil {
		q.keepalive.Stop()
		q.audio.Stop()
		q.stalled.Stop()
	}
}
