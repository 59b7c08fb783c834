package failover

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A server can stall: the connection is open, pings are answered, audio goes in, and nothing comes out. A session of a service with a
// stall-timeout looks a few times within that time whether the server has shown that it works, by the sign that the profile names. Frames
// that pass only count; the clock is read by the timer.
//
// The server is not to blame while the client does not read, while no audio goes in, and, where results come for speech only, while no one
// has spoken. Speech is listened for only while no sign comes. A server that is known to answer whatever the audio is owes a sign in silence, too
// (rhythm.go).

const (
	// A server is looked at stallLooks times within the timeout, but at least every longestLook, so that a stall is noticed at most two
	// looks too late.
	stallLooks   = 8
	longestLook  = 200 * time.Millisecond
	shortestLook = 10 * time.Millisecond
	// pauseInAudio is how long no audio must come until the client has stopped sending. The server's time stands still until it sends again.
	pauseInAudio = 1500 * time.Millisecond
	// spokenEnough is how much speech a server must have heard before a result is expected: a cough needs none. What was heard is forgotten
	// when nothing more is spoken for the timeout.
	spokenEnough = time.Second
)

// StallWatch is what a session knows of the signs that its server works. It is owned by the session.
type StallWatch struct {
	sign    profile.StallSign // static
	timeout time.Duration     // static
	learned bool              // static: timeout is the most, and how long the server usually takes says more

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
	rhythm    rhythm          // of the present server's results, where they come for speech only by the profile
	usual     usual           // how long the present server has owed signs so far
}

// StallView is what is looked at.
type StallView struct {
	Signs      uint32           // that the server works, in this session
	Unanswered int              // messages that wait for a reply
	Delivered  profile.Position // audio that went to the server, in this session
	Blocked    bool             // more waits to go in: the server does not read
	Excused    bool             // the server may not be able to say anything: the client does not read
	Replaying  bool             // the server gets what was kept, faster than it was spoken
	Half       int64            // how many bytes of audio last half of the timeout; 0 if that is not known
}

// Finding is what a look at the server has found.
type Finding struct {
	Signed   bool   // it has shown that it works since the last look
	Answered bool   // for the first time on the present leg
	Stalled  bool   // it owes a sign for too long
	Again    bool   // with Stalled: another server had stalled in the session before
	Why      string // with Stalled
}

// NewStallWatch returns a watch over servers that are to show a sign within timeout; if that is learned, sooner, once it is known how long they usually
// take.
func NewStallWatch(sign profile.StallSign, timeout time.Duration, learned bool) *StallWatch {
	return &StallWatch{sign: sign, timeout: timeout, learned: learned}
}

// Timeout returns within what time the server is to show a sign.
func (w *StallWatch) Timeout() time.Duration { return w.patience() }

// Quiet returns for how long the server has owed a sign, as of the last look.
func (w *StallWatch) Quiet() time.Duration { return w.quiet }

// AnswersAll reports whether the server is known to send results whatever the audio is.
func (w *StallWatch) AnswersAll() bool { return w.rhythm.known }

// Listens reports whether there is doubt, or the server's rhythm is learned, so that the watch is to hear what the client says.
func (w *StallWatch) Listens() bool { return w.listening || w.rhythm.ear != nil }

// Hear hears audio of the client's in a format.
func (w *StallWatch) Hear(audio []byte, e profile.Encoding, rate, channels int) {
	if w.rhythm.ear != nil {
		hear(w.rhythm.ear, audio, e, rate, channels)
	}
	if w.listening {
		hear(&w.heard, audio, e, rate, channels)
	}
}

// hear has a detector hear audio, for whose format it is made with the first. What it has heard of a frame stays: messages may be shorter than that.
func hear(d *replay.Detector, audio []byte, e profile.Encoding, rate, channels int) {
	if !d.Made() {
		*d = replay.NewDetector(e, rate, channels)
	}
	d.Write(audio)
}

// Begin notes that another server serves the session.
func (w *StallWatch) Begin(v *StallView) {
	w.signs, w.delivered, w.atSign = v.Signs, v.Delivered, v.Delivered
	w.answering, w.audio, w.pausing = false, 0, true
	w.signed()
	w.usual = usual{}
	if w.sign == profile.StallSpeech {
		w.rhythm.learn()
	}
}

// signed notes that the server owes nothing.
func (w *StallWatch) signed() {
	w.since, w.spoken, w.listening, w.quiet = 0, 0, false, 0
	w.heard.Reset()
}

// Every is the time between two looks.
func (w *StallWatch) Every() time.Duration {
	return max(min(w.timeout/stallLooks, longestLook), shortestLook)
}

// Look looks at the server, and reports whether it has stalled.
func (w *StallWatch) Look(v *StallView, now loop.Instant) Finding {
	before, signed := w.answering, v.Signs != w.signs
	var stalled bool
	if w.quiet, stalled = w.look(v, now); !stalled {
		return Finding{Signed: signed, Answered: w.answering && !before}
	}
	f := Finding{Stalled: true, Again: w.stalls > 0, Why: w.missing(w.quiet)}
	w.stalls = min(w.stalls, 254) + 1
	return f
}

// look returns for how long the server has owed a sign, and whether that is too long.
func (w *StallWatch) look(v *StallView, now loop.Instant) (quiet time.Duration, stalled bool) {
	signed := v.Signs != w.signs
	w.follow(v, now)
	w.signs = v.Signs
	if signed {
		w.answering = true
	}
	w.rhythm.look(signed, w.timeout)
	if signed && !v.Excused && !v.Replaying {
		w.usual.add(w.quiet + w.Every())
	}
	if signed || v.Excused {
		if signed && w.rhythm.known && w.quiet > rhythmSpread*w.rhythm.gap+w.Every() { // it works, and has broken its rhythm
			w.rhythm.learn()
		}
		w.atSign = v.Delivered
		w.signed()
	}
	switch {
	case v.Excused:
		return 0, false
	case w.sign.ByMessage():
		if v.Unanswered == 0 {
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
	if w.sign == profile.StallSpeech && !w.rhythm.known {
		w.listening = !signed
		if since = w.spokenSince(now); since == 0 {
			return 0, false
		}
	}
	quiet = time.Duration(now - since)
	timeout := w.patience()
	if v.Replaying { // it may need time for all that it gets at once
		timeout *= 2
	}
	enough := w.sign.ByMessage() || v.Blocked || int64(v.Delivered-w.atSign) > v.Half
	return quiet, quiet >= timeout && enough
}

// follow follows the client's audio. While the client pauses, the server's time stands still.
func (w *StallWatch) follow(v *StallView, now loop.Instant) {
	moved := v.Delivered != w.delivered || v.Blocked && w.audio != 0
	w.delivered = v.Delivered
	switch {
	case moved && w.pausing:
		if !w.sign.ByMessage() && w.since != 0 {
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
func (w *StallWatch) spokenSince(now loop.Instant) loop.Instant {
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
func (w *StallWatch) missing(quiet time.Duration) string {
	what := "result"
	if w.sign == profile.StallReplies {
		what = "reply"
	}
	return "backend stalled: no " + what + " for " + quiet.Round(100*time.Millisecond).String()
}
