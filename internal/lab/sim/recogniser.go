package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
)

// What the recogniser takes for speech.
const (
	windowsPerSecond = 50  // loudness is measured over windows of 20 ms
	loudEnough       = 330 // root mean square of a window with speech in it: 40 dB below full scale
	wordGap          = 3   // quiet windows that end a word
	utteranceGap     = 20  // quiet windows that end an utterance: a pause
	shortestWord     = 2   // loud windows that a word has at least; less is a click
	longestUtterance = 50  // words that end an utterance even without a pause
)

// word is a stretch of sound.
type word struct {
	text       string
	start, end time.Duration // since the recogniser's first audio
}

// recogniser finds the stretches of sound in audio (mono, 16 bits, little-endian) and puts them into words that tell how
// long and how loud each was, as in "speech-420ms-31dB" (decibels below full scale). Stretches between two pauses make an
// utterance, which begins with its number and ends with how much audio was heard by then and the checksum (CRC-32) of
// it, as in "heard-3360ms-89abcdef": audio that is missing, or belongs to another client, shows in the text. All depends
// on the samples alone, not on how they were cut into messages. The texts begin anew after finish; the times of the words continue,
// as Vosk's do. It does no I/O.
type recogniser struct {
	rate    int64
	window  int64  // samples in a window
	before  int64  // heard before the last finish
	samples int64  // heard since then
	sum     uint32 // their checksum

	inWindow int64 // samples of the window under way
	energy   int64 // sum of their squares

	quiet    int64  // quiet windows in a row
	loud     int64  // loud windows of the word under way; 0 when there is none
	begin    int64  // the sample that the word under way began at
	end      int64  // the sample that its last loud window ended at
	power    int64  // sum of the squares of its samples, from begin to end
	between  int64  // the same since end
	words    []word // of the utterance under way
	spoken   int    // utterances that have ended
	finished []word // of utterances that have ended and were not asked for yet
}

func newRecogniser(rate int) *recogniser {
	return &recogniser{rate: int64(rate), window: max(1, int64(rate)/windowsPerSecond)}
}

// listen hears audio. Half a sample at the end is dropped.
func (r *recogniser) listen(audio []byte) {
	for len(audio) >= 2 {
		n := min(int64(len(audio)/2), r.window-r.inWindow)
		energy := int64(0)
		for i := int64(0); i < 2*n; i += 2 {
			v := int64(int16(binary.LittleEndian.Uint16(audio[i:])))
			energy += v * v
		}
		r.energy += energy
		r.sum = crc32.Update(r.sum, crc32.IEEETable, audio[:2*n])
		r.inWindow += n
		r.samples += n
		audio = audio[2*n:]
		if r.inWindow == r.window {
			r.endWindow()
		}
	}
}

// endWindow judges the window that is complete.
func (r *recogniser) endWindow() {
	energy := r.energy
	size := r.inWindow
	r.energy, r.inWindow = 0, 0
	if energy >= loudEnough*loudEnough*size {
		if r.loud == 0 {
			r.begin, r.power, r.between = r.samples-size, 0, 0
		}
		r.loud++
		r.quiet = 0
		r.end = r.samples
		r.power += r.between + energy
		r.between = 0
		return
	}
	r.between += energy
	r.quiet++
	if r.quiet == wordGap {
		r.endWord()
	}
	if r.quiet == utteranceGap {
		r.endUtterance()
	}
}

// endWord ends the word under way, if there is one.
func (r *recogniser) endWord() {
	if r.loud >= shortestWord {
		r.words = append(r.words, r.wordUnderWay())
	}
	r.loud = 0
	if len(r.words) >= longestUtterance {
		r.endUtterance()
	}
}

func (r *recogniser) wordUnderWay() word {
	length := r.end - r.begin
	below := 10 * math.Log10(float64(1<<30)*float64(length)/float64(r.power))
	return word{
		text:  fmt.Sprintf("speech-%dms-%ddB", length*1000/r.rate, int(math.Round(below))),
		start: r.at(r.begin),
		end:   r.at(r.end),
	}
}

// endUtterance ends the utterance under way, if anything was said.
func (r *recogniser) endUtterance() {
	if len(r.words) == 0 {
		return
	}
	r.spoken++
	first, now := r.words[0].start, r.at(r.samples)
	r.finished = append(r.finished, word{text: fmt.Sprintf("utterance-%d", r.spoken), start: first, end: first})
	r.finished = append(r.finished, r.words...)
	r.finished = append(r.finished, word{
		text: fmt.Sprintf("heard-%dms-%08x", r.samples*1000/r.rate, r.sum), start: now, end: now,
	})
	r.words = nil
}

// at returns the time of one of the samples since the last finish.
func (r *recogniser) at(sample int64) time.Duration {
	return time.Duration(r.before+sample) * time.Second / time.Duration(r.rate)
}

// results returns the words of the utterances that have ended since it was last called.
func (r *recogniser) results() []word {
	words := r.finished
	r.finished = nil
	return words
}

// underWay returns the words of the utterance that has not ended yet, the last of which may still be growing.
func (r *recogniser) underWay() []word {
	if r.loud >= shortestWord {
		return append(slices.Clip(r.words), r.wordUnderWay())
	}
	return r.words
}

// finish ends the utterance under way, returns what results would, and begins anew, the clock aside.
func (r *recogniser) finish() []word {
	r.endWord()
	r.endUtterance()
	words, before := r.finished, r.before+r.samples
	*r = *newRecogniser(int(r.rate))
	r.before = before
	return words
}
