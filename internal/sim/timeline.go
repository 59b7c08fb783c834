package sim

import (
	"math"
	"strings"
)

// timeline tells the times of audio by its bytes.
type timeline struct {
	perSecond int // bytes
	heard     int // bytes in all
	from      int // where the utterance under way begins
}

// sampleBytes are the bytes of a sample, by what services call its encoding.
var sampleBytes = map[string]int{
	"linear16": 2, "linear32": 4, "pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1, "pcm_mulaw": 1,
}

// newTimeline returns one for so many samples a second in all channels. What is not known, or compressed, counts as 16 kHz in 16
// bits.
func newTimeline(encoding string, rate int) timeline {
	size := sampleBytes[encoding]
	if size == 0 {
		size = 2
	}
	if rate < 1 || rate > 1<<20 {
		rate = 16000
	}
	return timeline{perSecond: size * rate}
}

func (t *timeline) listen(audio []byte) { t.heard += len(audio) }

// next begins another utterance.
func (t *timeline) next() { t.from = t.heard }

// at returns the time of a byte in seconds, to the millisecond.
func (t *timeline) at(bytes int) float64 {
	return math.Round(float64(bytes)*1000/float64(t.perSecond)) / 1000
}

func (t *timeline) start() float64    { return t.at(t.from) }
func (t *timeline) end() float64      { return t.at(t.heard) }
func (t *timeline) duration() float64 { return t.at(t.heard - t.from) }

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
