package failover

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// The watch by itself, as the session's timer calls it, over minutes in no time.

// watching is a watch, and a session of 16 kHz audio in messages of 100 ms.
type watching struct {
	t    *testing.T
	w    *StallWatch
	v    StallView
	now  time.Duration
	next time.Duration // when the next look is due
	said []byte        // what the client says next
	size int           // of its messages in bytes; 0 for 100 ms
	at   time.Duration // when it was found that the server has stalled; 0 for not
}

const (
	audioSecond = 32000
	tick        = 100 * time.Millisecond
)

func watch(t *testing.T, sign profile.StallSign, timeout time.Duration) *watching {
	w := &watching{t: t, w: &StallWatch{sign: sign, timeout: timeout}, v: StallView{Half: int64(timeout.Seconds() / 2 * audioSecond)}}
	w.now = time.Hour
	w.next = w.now
	w.w.Begin(&w.v)
	return w
}

// does lets time pass, in which the client and the server do something each tenth of a second.
func (w *watching) does(d time.Duration, each ...func(w *watching)) {
	for end := w.now + d; w.now < end && w.at == 0; w.now += tick {
		for w.next <= w.now && w.at == 0 {
			if w.w.Look(&w.v, loop.Instant(w.next)).Stalled {
				w.at = w.next
			}
			w.next += w.w.Every()
		}
		for _, f := range each {
			f(w)
		}
	}
}

// audio has the client send what it says, or silence.
func audio(w *watching) {
	chunk := make([]byte, audioSecond/10)
	w.said = w.said[copy(chunk, w.said):]
	w.v.Delivered += profile.Position(len(chunk))
	if w.size == 0 {
		w.size = len(chunk)
	}
	for message := range slices.Chunk(chunk, w.size) {
		if w.w.Listens() {
			w.w.Hear(message, profile.S16LE, 16000, 1)
		}
	}
}

// result has the server send one.
func result(w *watching) { w.v.Signs++ }

// send has the client send a message that gets a reply, and replies has the server send that.
func send(w *watching) { w.v.Unanswered++ }

func replies(w *watching) {
	if w.v.Unanswered > 0 {
		w.v.Unanswered--
		w.v.Signs++
	}
}

// every does something only now and then.
func every(d time.Duration, f func(w *watching)) func(w *watching) {
	return func(w *watching) {
		if w.now%d == 0 {
			f(w)
		}
	}
}

func (w *watching) works() {
	w.t.Helper()
	if w.at != 0 {
		w.t.Fatalf("a server that works has stalled, %v after it began", w.at-time.Hour)
	}
}

// stallsWithin expects a stall at least so long from now, but at most half a second more.
func (w *watching) stallsWithin(d time.Duration, each ...func(w *watching)) {
	w.t.Helper()
	from := w.now
	w.does(d+10*time.Second, each...)
	if took := w.at - from; w.at == 0 || took < d || took > d+500*time.Millisecond {
		w.t.Errorf("found after %v, want %v to half a second more", took, d)
	}
}

func recording(t *testing.T, seconds int) []byte {
	w, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	for len(said) < seconds*audioSecond {
		said = append(said, w.PCM...)
	}
	return said[:seconds*audioSecond]
}

func TestRepliesMissing(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		w := watch(t, profile.StallReplies, timeout)
		w.does(time.Minute, send, replies)
		w.does(time.Hour) // the client sends nothing
		w.does(10*timeout, every(timeout/2, send), every(timeout/2, replies))
		w.works()
		w.stallsWithin(timeout, send)
	}
}

// A server that answers just in time, again and again, has not stalled.
func TestJustInTime(t *testing.T) {
	w := watch(t, profile.StallReplies, 5*time.Second)
	w.does(5*time.Minute, send, every(4800*time.Millisecond, replies))
	w.works()
	w = watch(t, profile.StallCadence, 5*time.Second)
	w.does(5*time.Minute, audio, every(4800*time.Millisecond, result))
	w.works()
	w = watch(t, profile.StallSpeech, 5*time.Second)
	w.said = recording(t, 300)
	w.does(5*time.Minute, audio, every(4800*time.Millisecond, result))
	w.works()
}

func TestCadenceMissing(t *testing.T) {
	w := watch(t, profile.StallCadence, 3*time.Second)
	w.does(time.Hour) // the client sends nothing
	w.works()
	w.does(time.Minute, audio, every(300*time.Millisecond, result))
	w.does(time.Minute) // it pauses
	w.does(time.Second, audio)
	w.does(time.Minute) // a pause is not the server's time
	w.works()
	result(w)
	w.does(300*time.Millisecond, audio)
	w.works()
	w.stallsWithin(2700*time.Millisecond, audio)

	w = watch(t, profile.StallCadence, 3*time.Second) // nothing ever comes
	w.stallsWithin(3*time.Second, audio)

	w = watch(t, profile.StallCadence, 3*time.Second)
	w.does(time.Hour, every(time.Second, func(w *watching) { w.v.Delivered += 2 })) // hardly any audio
	w.works()
}

// Silence, noise and coughs need no result.
func TestNothingSpoken(t *testing.T) {
	w := watch(t, profile.StallSpeech, 2*time.Second)
	w.does(time.Hour, audio)
	w.works()
	for range 20 * audioSecond / 2 {
		w.said = binary.LittleEndian.AppendUint16(w.said, uint16(int16(rand.NormFloat64()*1000)))
	}
	w.does(30*time.Second, audio)
	w.works()
	for range 10 { // half a second that goes up and down as a syllable does, each ten seconds
		for i := range 10 * audioSecond / 2 {
			at := float64(i) / 16000
			v := 0.0
			if at < 0.5 {
				v = math.Sin(2*math.Pi*200*at) * 8000 * math.Abs(math.Sin(2*math.Pi*3*at))
			}
			w.said = binary.LittleEndian.AppendUint16(w.said, uint16(int16(v)))
		}
	}
	w.does(2*time.Minute, audio)
	w.works()
}

// sizes are those of messages, of which some are shorter than what a detector measures, and end within a sample.
var sizes = []int{0, 320, 256, 101}

func TestSpeechWithoutResults(t *testing.T) {
	for _, size := range sizes {
		speechWithoutResults(t, size)
	}
}

func speechWithoutResults(t *testing.T, size int) {
	w := watch(t, profile.StallSpeech, 3*time.Second)
	w.size = size
	w.said = recording(t, 20)
	w.does(20*time.Second, audio, every(500*time.Millisecond, result))
	w.does(10*time.Minute, audio) // silence, which is not answered
	w.works()
	w.said = recording(t, 20)
	w.does(2*time.Second, audio)
	w.works()
	w.stallsWithin(time.Second, audio)

	w = watch(t, profile.StallSpeech, 3*time.Second) // only short utterances, and nothing is sent between them
	w.size = size
	for range 6 {
		w.said = recording(t, 2)
		w.does(2*time.Second, audio)
		w.does(time.Minute)
	}
	if w.at == 0 {
		t.Errorf("a server that answers no utterance has not stalled, with messages of %d bytes", size)
	}
}

// What is not the server's fault.
func TestExcused(t *testing.T) {
	for _, sign := range []profile.StallSign{profile.StallReplies, profile.StallCadence, profile.StallSpeech} {
		w := watch(t, sign, 2*time.Second)
		w.does(10*time.Second, send, replies, audio, result)
		w.v.Excused = true // the client does not read
		w.said = recording(t, 60)
		w.does(time.Minute, send, audio)
		w.v.Excused = false
		w.does(1500*time.Millisecond, send, audio)
		w.works()
		w.does(10*time.Second, send, replies, audio, result)
		w.works()

		w.v.Replaying = true // twice the time
		w.said = recording(t, 60)
		w.does(3500*time.Millisecond, send, audio)
		w.works()
		w.does(2*time.Second, send, audio)
		if w.at == 0 {
			t.Errorf("%v: not found while replaying", sign)
		}
	}
}

// A server that no longer reads stops the client, and has stalled nevertheless.
func TestServerReadsNothing(t *testing.T) {
	w := watch(t, profile.StallCadence, 3*time.Second)
	w.does(time.Minute, audio, result)
	w.v.Blocked = true
	w.stallsWithin(3 * time.Second)
}

// The next server begins anew.
func TestNextServer(t *testing.T) {
	w := watch(t, profile.StallCadence, 3*time.Second)
	w.does(10*time.Second, audio, result)
	w.does(2500*time.Millisecond, audio)
	w.w.Begin(&w.v)
	if w.w.answering {
		t.Error("the next server has not answered")
	}
	w.stallsWithin(3*time.Second, audio)
}
