package session

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A server can stall: the connection is open, pings are answered, audio goes in, and nothing comes out. A session of a service with a
// stall-timeout looks a few times within that time whether the server has shown that it works, by the sign that the profile names. Frames
// that pass only count; the clock is read by the timer.
//
// The server is not to blame while the client does not read, while no audio goes in, and, where results come for speech only, while nobody
// has spoken. Speech is listened for only while no sign comes.

const (
	// A server is looked at stallLooks times within the timeout, but at least every longestLook, so that a stall is noticed at most two
	// looks too late.
	stallLooks   = 8
	longestLook  = 200 * time.Millisecond
	shortestLook = 10 * time.Millisecond
	// pauseInAudio is how long no audio must come until the client has stopped sending. The server's time stands still until it goes on.
	pauseInAudio = 1500 * time.Millisecond
	// spokenEnough is how much speech a server must have heard before a result is expected: a cough needs none. What was heard is forgotten
	// when nothing more is spoken for the timeout.
	spokenEnough = time.Second
)

// stallWatch is what a session knows of the signs that its server works. It is owned by the session's loop, and nil for a session whose
// server is not watched. It does no I/O and has no clock.
type stallWatch struct {
	sign    profile.StallSign // static
	timeout time.Duration     // static
	timer   loop.Timer

	signs     uint32           // at the last look
	answering bool             // the server has shown a sign on the present leg
	delivered profile.Position // at the last look
	atSign    profile.Position // delivered when the last sign was seen
	audio     loop.Instant     // when audio last went in; 0 for not yet
	pausing   bool             // the client has stopped sending audio
	since     loop.Instant     // since when the server owes a sign; 0 if it owes none
	quiet     time.Duration    // for how long it has, as of the last look
	stalls    uint8            // servers that have stalled

	listening bool            // no sign came at the last look, so that speech is listened for
	heard     replay.Detector // what the client has said since then
	spoken    loop.Instant    // since when the server had heard enough; 0 for not yet
}

// stallView is what is looked at.
type stallView struct {
	signs      uint32           // that the server works, in this session
	unanswered int              // messages that wait for a reply
	delivered  profile.Position // audio that went to the server, in this session
	blocked    bool             // more waits to go in: the server does not read
	excused    bool             // the server may not be able to say anything: the client does not read
	replaying  bool             // the server gets what another one had got, faster than it was spoken
	half       int64            // how many bytes of audio last half of the timeout; 0 if that is not known
}

// begin notes that another server serves the session.
func (w *stallWatch) begin(v *stallView) {
	w.signs, w.delivered, w.atSign = v.signs, v.delivered, v.delivered
	w.answering, w.audio, w.pausing = false, 0, true
	w.signed()
}

// signed notes that the server owes nothing.
func (w *stallWatch) signed() {
	w.since, w.spoken, w.listening, w.quiet = 0, 0, false, 0
	w.heard.Reset()
}

// every is the time between two looks.
func (w *stallWatch) every() time.Duration {
	return max(min(w.timeout/stallLooks, longestLook), shortestLook)
}

// look looks at the server. It returns for how long the server has owed a sign, and whether that is too long.
func (w *stallWatch) look(v *stallView, now loop.Instant) (quiet time.Duration, stalled bool) {
	signed := v.signs != w.signs
	w.follow(v, now)
	w.signs = v.signs
	if signed {
		w.answering = true
	}
	if signed || v.excused {
		w.atSign = v.delivered
		w.signed()
	}
	switch {
	case v.excused:
		return 0, false
	case w.sign == profile.StallReplies:
		if v.unanswered == 0 {
			w.since = 0
			return 0, false
		}
	case w.pausing:
		return 0, false
	}
	if w.since == 0 {
		w.since = now
	}
	since := w.since
	if w.sign == profile.StallSpeech {
		w.listening = !signed
		if since = w.spokenSince(now); since == 0 {
			return 0, false
		}
	}
	quiet = time.Duration(now - since)
	timeout := w.timeout
	if v.replaying { // it may need time for all that it gets at once
		timeout *= 2
	}
	enough := w.sign == profile.StallReplies || v.blocked || int64(v.delivered-w.atSign) > v.half
	return quiet, quiet >= timeout && enough
}

// follow follows the client's audio. While the client pauses, the server's time stands still.
func (w *stallWatch) follow(v *stallView, now loop.Instant) {
	moved := v.delivered != w.delivered || v.blocked && w.audio != 0
	w.delivered = v.delivered
	switch {
	case moved && w.pausing:
		if w.sign != profile.StallReplies && w.since != 0 {
			w.since += now - w.audio
		}
		if w.spoken != 0 {
			w.spoken += now - w.audio
		}
		w.pausing, w.audio = false, now
	case moved:
		w.audio = now
	case now > w.audio.After(pauseInAudio):
		w.pausing = true
	}
}

// spokenSince returns since when the server has had enough speech for a result; 0 if it has not.
func (w *stallWatch) spokenSince(now loop.Instant) loop.Instant {
	switch spoken := w.heard.Spoken(); {
	case w.spoken != 0:
	case spoken >= spokenEnough:
		w.spoken = max(now-loop.Instant(spoken), w.since)
	case w.heard.Heard()-w.heard.LastVoice() > w.timeout:
		w.heard.Reset()
	}
	return w.spoken
}

// missing says what did not come.
func (w *stallWatch) missing(quiet time.Duration) string {
	what := "result"
	if w.sign == profile.StallReplies {
		what = "reply"
	}
	return "backend stalled: no " + what + " for " + quiet.Round(100*time.Millisecond).String()
}

// watchServer makes the session look for stalls from now on.
func (f *failover) watchServer(sign profile.StallSign) {
	f.session.server.watching.Store(true)
	f.watch = &stallWatch{sign: sign, timeout: f.session.record.Service.StallTimeout}
}

// view returns what a stallWatch looks at. The session must hold a lease.
func (f *failover) view() stallView {
	s := f.session
	return stallView{
		signs: f.signs, unanswered: f.tracker.Unanswered(), delivered: f.tracker.Delivered(), blocked: s.leg.up.to.Pending() > 0,
		excused: s.leg.conn.Stream().Paused() || s.client.Pending() > 0, replaying: !f.caughtUp || f.replaying, half: f.tracker.Bytes(f.watch.timeout / 2),
	}
}

// watchLeg looks for stalls of the server that serves the session from now on.
func (f *failover) watchLeg() {
	if f.watch == nil {
		return
	}
	v := f.view()
	f.watch.begin(&v)
	f.watch.timer.Set(f.session.client, f.watch.every(), timeStall)
}

// lookForStall is called by the timer.
func (f *failover) lookForStall() {
	s, w := f.session, f.watch
	if s.life.state != relaying {
		return // the state is bounded otherwise, or a new leg looks again
	}
	v := f.view()
	before, signed := w.answering, v.signs != w.signs
	quiet, stalled := w.look(&v, loop.Now())
	w.quiet = quiet
	if !stalled {
		if signed {
			s.leg.conn.Signed()
		}
		if w.answering != before {
			s.leg.conn.Answered()
		}
		w.timer.Set(s.client, w.every(), timeStall)
		return
	}
	why := w.missing(quiet)
	s.leg.conn.Stalled(s.voter(), w.stalls > 0, quiet, why)
	if w.stalls < 255 {
		w.stalls++
	}
	s.leaveServer(meter.Stalled, event{
		kind: stopped, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: why, fault: true,
	})
}

// listen listens to what the client says, if there is doubt. e is the entry of the message. payload may be nil for a message in m.
func (f *failover) listen(m *message, e profile.Entry, payload []byte) {
	w := f.watch
	if w == nil || !w.listening || e.Kind != profile.EntryAudio || e.From == e.To || m.raw == nil {
		return
	}
	if w.heard.Heard() == 0 {
		w.heard = replay.NewDetector(f.tracker.Format())
	}
	buffer, audio := messageBuffers.Get().(*[]byte), messageBuffers.Get().(*[]byte)
	if payload == nil {
		*buffer = m.appendPayload(*buffer)
		payload = *buffer
	}
	ok := false
	if *audio, ok = f.tracker.Audio(*audio, e, payload); ok {
		w.heard.Write(*audio)
	}
	freeBuffer(buffer)
	freeBuffer(audio)
}
