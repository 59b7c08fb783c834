package failover

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
)

// Some servers send results all the time while audio comes, in silence and noise too, and others only during speech; the profile of a
// protocol often cannot tell which, since that depends on the model and its settings. So a session learns it: a server that has answered enough
// audio without speech, at regular intervals, owes results whatever the audio is. Speech is not learned from: all servers answer that.
//
// Times are those of the audio, so that a client that pauses, or sends faster than it speaks, changes nothing.

const (
	// rhythmLag is how long after the last speech results may still be about that.
	rhythmLag = 3 * time.Second
	// A rhythm is known after rhythmResults results, in rhythmAudio of audio without speech.
	rhythmResults = 20
	rhythmAudio   = 10 * time.Second
	// rhythmSpread is how many times the mean interval the longest may be: words come at irregular times.
	rhythmSpread = 3
	// rhythmShare is which part of the timeout an interval may be at most, so that a few results are missing when it is over.
	rhythmShare = 5
	// rhythmGivenUp is how much audio is heard at most. A server that says nothing in silence is known sooner.
	rhythmGivenUp = 2 * time.Minute
)

// rhythm is what a session has learned of how regularly its server sends results. It is owned by the session's watch.
type rhythm struct {
	known bool
	gap   time.Duration // the longest between two results in audio without speech

	// While it is learned.
	ear     *replay.Detector // hears the audio; nil while nothing is learned
	last    time.Duration    // up to where the audio was heard at the last result; 0 while there is speech
	results int              // in audio without speech
	audio   time.Duration    // that these results are apart in all
}

// learn begins to learn the rhythm of a server.
func (r *rhythm) learn() { *r = rhythm{ear: new(replay.Detector)} }

// look notes whether results have come since the last look. A session that may wait for timeout learns nothing from longer intervals.
func (r *rhythm) look(signed bool, timeout time.Duration) {
	if r.ear == nil {
		return
	}
	heard := r.ear.Heard()
	switch {
	case heard-r.ear.LastVoice() < rhythmLag:
		r.last = 0
	case r.last == 0:
		r.last = heard
	default:
		since := heard - r.last
		r.gap = max(r.gap, since)
		if signed {
			r.last = heard
			r.results++
			r.audio += since
		}
	}
	switch {
	case r.gap > timeout/rhythmShare, heard > rhythmGivenUp:
		r.ear = nil
	case r.results < rhythmResults || r.audio < rhythmAudio:
	case r.gap*time.Duration(r.results) <= rhythmSpread*r.audio:
		r.known, r.ear = true, nil
	default:
		r.gap, r.results, r.audio = 0, 0, 0
	}
}

// usual is for how long a server has owed a sign when one came, in a session so far. It is owned by the session's watch.
type usual struct {
	longest time.Duration
	signs   int
}

const (
	// usualSigns is how many signs tell what is usual, and usualFactor how many times longer than the longest a server may take.
	usualSigns  = 20
	usualFactor = 10
	// leastLearned is the shortest timeout that is learned.
	leastLearned = 2 * time.Second
)

// add notes a sign that came after the server had owed it for so long.
func (u *usual) add(owed time.Duration) {
	u.longest = max(u.longest, owed)
	u.signs++
}

// patience returns after what time without a sign the server has stalled.
func (w *StallWatch) patience() time.Duration {
	if !w.learned || w.usual.signs < usualSigns || w.sign == profile.StallSpeech && !w.rhythm.known {
		return w.timeout
	}
	return min(max(usualFactor*w.usual.longest, leastLearned), w.timeout)
}
