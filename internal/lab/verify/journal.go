package verify

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// journal keeps what was last sent and received, as evidence. It is kept for one trial.
type journal struct {
	began time.Time
	lines []string
	left  int // lines that were dropped
	audio int // messages of audio since the last line
}

// The limits of a journal: lines, of which the first ones are dropped, and characters of a message.
const (
	maxLines   = 24
	maxExcerpt = 240
)

func newJournal() *journal { return &journal{began: time.Now()} }

func (j *journal) note(format string, args ...any) {
	j.flush()
	j.add(fmt.Sprintf(format, args...))
}

func (j *journal) add(what string) {
	if len(j.lines) == maxLines {
		copy(j.lines, j.lines[1:])
		j.lines = j.lines[:maxLines-1]
		j.left++
	}
	j.lines = append(j.lines, fmt.Sprintf("%8.3fs  %s", time.Since(j.began).Seconds(), what))
}

// flush writes how much audio was sent.
func (j *journal) flush() {
	if j.audio > 0 {
		n := j.audio
		j.audio = 0
		j.add(fmt.Sprintf("sent %d messages of audio", n))
	}
}

// longAudio is the size from which on a message of a client is taken to be audio: it is counted, and not shown.
const longAudio = 400

func (j *journal) sent(m speaker.Message, why string) {
	if why == "" && len(m.Payload) >= longAudio {
		j.audio++
		return
	}
	j.flush()
	if why != "" {
		why = " (" + why + ")"
	}
	j.add("sent " + excerpt(m) + why)
}

func (j *journal) received(m speaker.Message) {
	j.flush()
	j.add("received " + excerpt(m))
}

// evidence returns the lines.
func (j *journal) evidence() []string {
	j.flush()
	lines := append([]string(nil), j.lines...)
	if j.left > 0 {
		lines = append([]string{fmt.Sprintf("(%d lines before)", j.left)}, lines...)
	}
	return lines
}

// excerpt shows a message.
func excerpt(m speaker.Message) string {
	if m.Opcode == frame.Text && utf8.Valid(m.Payload) {
		if text := string(m.Payload); len(text) > maxExcerpt {
			cut := maxExcerpt
			for !utf8.RuneStart(text[cut]) {
				cut--
			}
			return fmt.Sprintf("%s... (%d bytes)", text[:cut], len(text))
		}
		return string(m.Payload)
	}
	if value, ok := speaker.Decode(m); ok {
		text := fmt.Sprint(value)
		return fmt.Sprintf("binary %.*s", maxExcerpt, text)
	}
	return fmt.Sprintf("binary, %d bytes", len(m.Payload))
}
