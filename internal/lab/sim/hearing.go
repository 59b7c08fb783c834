package sim

import (
	"fmt"
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

// utterances hears audio, whose times go to t, and calls end where the speaker pauses: exactly there, also in the middle of a message.
// It reports whether audio follows the last pause.
func (h *hearing) utterances(t *timeline, audio []byte, end func()) (more bool) {
	for len(audio) > 0 {
		n := h.untilPause(audio)
		t.listen(audio[:n])
		if audio = audio[n:]; !h.pause {
			return true
		}
		end()
	}
	return false
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

// next forgets what was heard, but goes on within the audio.
func (h *hearing) next() { h.runs, h.bytes, h.pause = h.runs[:0], 0, false }
