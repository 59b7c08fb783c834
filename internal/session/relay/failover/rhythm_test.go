package failover

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// noise returns a fan's noise, louder or softer.
func noise(seconds int, level float64) (said []byte) {
	for range seconds * audioSecond / 2 {
		said = binary.LittleEndian.AppendUint16(said, uint16(int16(rand.NormFloat64()*level)))
	}
	return said
}

// A server that has answered silence, noise and speech alike, and then sends nothing, hangs whatever the audio is.
func TestRhythm(t *testing.T) {
	for name, then := range map[string][]byte{"silence": nil, "noise": noise(60, 1000), "speech": recording(t, 60)} {
		for i, interval := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond} {
			w := watch(t, profile.StallSpeech, 4*time.Second)
			w.size = sizes[i]
			w.said = append(noise(10, 300), recording(t, 10)...)
			w.does(40*time.Second, audio, every(interval, result))
			if w.works(); !w.w.rhythm.known || w.w.Listens() {
				t.Fatalf("%v: known %v, listens %v after 40 s", interval, w.w.rhythm.known, w.w.Listens())
			}
			w.said = then
			from := w.now
			w.does(time.Minute, audio)
			if took := w.at - from; w.at == 0 || took < 3500*time.Millisecond || took > 5*time.Second {
				t.Errorf("a result each %v, then %s and nothing: found after %v; want some 4s", interval, name, took)
			}
		}
	}
}

// What is no rhythm: then silence without results is no stall.
func TestNoRhythm(t *testing.T) {
	words := func(w *watching) { // at irregular times, as words are spoken too softly for the detector
		if math.Mod(w.now.Seconds(), 4) < 1.2 {
			result(w)
		}
	}
	for name, c := range map[string]struct {
		said []byte
		each []func(*watching)
	}{
		"results for speech only":       {recording(t, 40), []func(*watching){audio, every(200*time.Millisecond, result)}},
		"words, softly spoken":          {nil, []func(*watching){audio, words}},
		"results too far apart":         {nil, []func(*watching){audio, every(time.Second, result)}},
		"nothing in silence":            {append(recording(t, 5), make([]byte, 35*audioSecond)...), []func(*watching){audio}},
		"results, and no audio at all":  {nil, []func(*watching){every(200*time.Millisecond, result)}},
		"the end of what was said last": {append(recording(t, 35), make([]byte, 5*audioSecond)...), []func(*watching){audio, every(200*time.Millisecond, result)}},
	} {
		w := watch(t, profile.StallSpeech, 4*time.Second)
		w.said = c.said
		if name == "nothing in silence" {
			w.does(5*time.Second, audio, every(200*time.Millisecond, result))
			c.each = []func(*watching){audio}
		}
		w.does(40*time.Second, c.each...)
		if w.w.rhythm.known {
			t.Errorf("%s: a rhythm of %v", name, w.w.rhythm.gap)
		}
		w.said = nil
		w.does(5*time.Minute, audio)
		if w.at != 0 {
			t.Errorf("%s: silence is a stall, %v after it began", name, w.at-time.Hour-40*time.Second)
		}
	}
}

// A server that falls silent for a while and continues has no rhythm to rely on, until it is learned again. A pause of the client breaks none.
func TestRhythmBroken(t *testing.T) {
	w := watch(t, profile.StallSpeech, 8*time.Second)
	w.does(20*time.Second, audio, every(200*time.Millisecond, result))
	if !w.w.rhythm.known {
		t.Fatal("no rhythm after 20 s")
	}
	w.does(time.Hour) // the client pauses
	w.does(2*time.Second, audio, every(200*time.Millisecond, result))
	if w.works(); !w.w.rhythm.known {
		t.Error("the client's pause has broken the rhythm")
	}
	w.does(4*time.Second, audio)
	w.does(time.Second, audio, every(200*time.Millisecond, result))
	if w.works(); w.w.rhythm.known {
		t.Error("the rhythm is still known, and the server has broken it")
	}
	w.does(5*time.Minute, audio)
	w.works()

	w = watch(t, profile.StallSpeech, 8*time.Second)
	w.does(20*time.Second, audio, every(200*time.Millisecond, result))
	w.w.Begin(&w.v)
	w.does(5*time.Minute, audio) // the next server need not answer silence
	w.works()
}

// With a timeout that is learned, a server that was quick has stalled sooner than one that was not, and one of which little is known later.
func TestLearnedTimeout(t *testing.T) {
	learns := func(sign profile.StallSign) *watching {
		w := watch(t, sign, 30*time.Second)
		w.w.learned, w.v.Half = true, audioSecond
		return w
	}
	w := learns(profile.StallReplies)
	w.does(time.Minute, send, replies)
	w.stallsWithin(2*time.Second, send)

	w = learns(profile.StallReplies)
	w.does(time.Minute, send, every(time.Second, replies))
	w.does(9*time.Second, send)
	w.works()

	w = learns(profile.StallReplies)
	w.does(time.Second, send, replies)
	w.stallsWithin(30*time.Second, send)

	w = learns(profile.StallCadence)
	w.does(time.Minute, audio, every(300*time.Millisecond, result))
	from := w.now
	if w.does(time.Minute, audio); w.at == 0 || w.at-from < 2*time.Second || w.at-from > 6*time.Second {
		t.Errorf("found after %v", w.at-from)
	}

	w = learns(profile.StallSpeech) // which answers silence
	w.does(time.Minute, audio, every(200*time.Millisecond, result))
	from = w.now
	if w.does(time.Minute, audio); w.at == 0 || w.at-from > 6*time.Second {
		t.Errorf("found after %v", w.at-from)
	}

	w = learns(profile.StallSpeech) // which does not
	w.said = recording(t, 60)
	w.does(time.Minute, audio, every(200*time.Millisecond, result))
	w.said = recording(t, 25)
	w.does(25*time.Second, audio)
	w.works()
}
