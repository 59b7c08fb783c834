package sim

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// maxRuns bounds what a recogniser remembers of one utterance.
const maxRuns = 64

// hearing is what a simulated recogniser decoded since its state was last cleared: not the sounds, but the sessions that they belong
// to. The zero value has heard nothing.
type hearing struct {
	marks MarkScanner
	runs  []run
	bytes int  // of audio in all
	pause bool // the speaker paused since this was last cleared
}

// run is an unbroken sequence of a session's chunks.
type run struct {
	session     uint64
	first, last uint16
}

// listen hears audio.
func (h *hearing) listen(audio []byte) {
	h.bytes += len(audio)
	h.marks.Scan(audio, h.note)
}

// untilPause hears audio up to the next pause of the speaker, or all of it, and returns how much that was.
func (h *hearing) untilPause(audio []byte) int {
	n := h.marks.scan(audio, func(m Mark) bool {
		h.note(m)
		return !m.Pause
	})
	h.bytes += n
	return n
}

func (h *hearing) note(m Mark) {
	h.pause = h.pause || m.Pause
	if n := len(h.runs); n > 0 {
		last := &h.runs[n-1]
		if m.Session == last.session && (m.Seq == last.last || m.Seq == last.last+1) {
			last.last = m.Seq
			return
		}
	}
	if len(h.runs) < maxRuns {
		h.runs = append(h.runs, run{m.Session, m.Seq, m.Seq})
	}
}

// words returns the identities of the audio, such as "s17:3-5". For audio without marks it returns its size, and for no audio an empty
// text.
func (h *hearing) words() string {
	if len(h.runs) == 0 {
		if h.bytes == 0 {
			return ""
		}
		return fmt.Sprintf("heard-%dB", h.bytes)
	}
	var b []byte
	for i, r := range h.runs {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendIdentity(b, r.session, r.first, r.last)
	}
	return string(b)
}

// clear forgets everything, half a block of a mark included.
func (h *hearing) clear() { *h = hearing{runs: h.runs[:0], marks: MarkScanner{rest: h.marks.rest[:0]}} }

// next forgets what was heard, but continues within the audio.
func (h *hearing) next() { h.runs, h.bytes, h.pause = h.runs[:0], 0, false }

// timeline tells the times of audio by its bytes.
type timeline struct {
	perSecond int // bytes
	heard     int // bytes in all
	from      int // where the utterance under way begins
}

// sampleBytes are the bytes of a sample, by what services call its encoding.
var sampleBytes = map[string]int{
	"linear16": 2, "linear32": 4, "pcm_s16le": 2, "pcm_f32le": 4, "pcm_u8": 1, "mulaw": 1, "alaw": 1, "pcm_mulaw": 1,
	"audio/pcm": 2, "audio/pcmu": 1, "audio/pcma": 1, "audio/l16": 2, "audio/mulaw": 1, "audio/alaw": 1,
	"float32": 4, "int16": 2, "uint8": 1,
	"wav/pcm": 2, "wav/alaw": 1, "wav/ulaw": 1,
}

// newTimeline returns one for a number of samples a second in all channels. What is not known, or compressed, counts as 16 kHz in 16
// bits.
func newTimeline(encoding string, rate int) timeline {
	if rate < 1 || rate > 1<<20 {
		rate = 16000
	}
	return timeline{perSecond: cmp.Or(sampleBytes[encoding], 2) * rate}
}

func (t *timeline) listen(audio []byte) { t.heard += len(audio) }

// next begins another utterance.
func (t *timeline) next() { t.from = t.heard }

// at returns the time of a byte in seconds, to the millisecond.
func (t *timeline) at(bytes int) float64 {
	return toMillisecond(float64(bytes) / float64(t.perSecond))
}

// ms returns the time of a byte in whole milliseconds.
func (t *timeline) ms(bytes int) int { return (bytes*1000 + t.perSecond/2) / t.perSecond }

// length returns how long that many bytes last.
func (t *timeline) length(bytes int) time.Duration {
	return time.Duration(float64(bytes) / float64(t.perSecond) * float64(time.Second))
}

func (t *timeline) start() float64    { return t.at(t.from) }
func (t *timeline) end() float64      { return t.at(t.heard) }
func (t *timeline) duration() float64 { return t.at(t.heard - t.from) }

// toMillisecond rounds seconds.
func toMillisecond(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// inMilliseconds returns seconds in whole milliseconds.
func inMilliseconds(seconds float64) int { return int(math.Round(seconds * 1000)) }

// clock returns the time of a byte as hours, minutes and seconds to the hundredth: "0:01:02.50".
func (t *timeline) clock(bytes int) string {
	hundredths := (bytes*100 + t.perSecond/2) / t.perSecond
	seconds := hundredths / 100
	return fmt.Sprintf("%d:%02d:%02d.%02d", seconds/3600, seconds/60%60, seconds%60, hundredths%100)
}

// timedWord is a word of a transcript with its time in seconds.
type timedWord struct {
	text       string
	start, end float64
}

// words returns the words of the utterance under way, which share its time evenly.
func (t *timeline) words(transcript string) []timedWord {
	texts := strings.Fields(transcript)
	words := make([]timedWord, len(texts))
	for i, text := range texts {
		words[i] = timedWord{text, t.at(t.from + i*(t.heard-t.from)/len(texts)), t.at(t.from + (i+1)*(t.heard-t.from)/len(texts))}
	}
	return words
}

// recognition is what a recogniser has heard, and when: the utterance under way.
type recognition struct {
	heard hearing
	times timeline
}

// newRecognition returns one for audio as [newTimeline] takes it.
func newRecognition(encoding string, rate int) recognition {
	return recognition{times: newTimeline(encoding, rate)}
}

// length returns how much audio was heard in all.
func (r *recognition) length() time.Duration { return r.times.length(r.times.heard) }

// listen hears audio.
func (r *recognition) listen(audio []byte) {
	r.heard.listen(audio)
	r.times.listen(audio)
}

// next begins another utterance, also in the middle of a mark's block.
func (r *recognition) next() {
	r.heard.next()
	r.times.next()
}

// utterances hears audio, and has what was heard said where the speaker pauses (exactly there, also in the middle of a message), and at the end,
// if audio follows the last pause: ends tells which.
func (r *recognition) utterances(audio []byte, say func(ends bool)) {
	for len(audio) > 0 {
		n := r.heard.untilPause(audio)
		r.times.listen(audio[:n])
		audio = audio[n:]
		say(r.heard.pause)
	}
}

// beside returns a transcript with what settings add to it.
func beside(words, settings string) string {
	if settings == "" {
		return words
	}
	return words + " " + settings
}

// timedJSON returns the words of the utterance under way as a JSON array, each as entry makes it.
func timedJSON[T any](t *timeline, words string, entry func(w timedWord) T) []byte {
	list := []T{}
	for _, w := range t.words(words) {
		list = append(list, entry(w))
	}
	return inJSON(list)
}
